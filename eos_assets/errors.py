"""What a user can act on: every error names the thing that is wrong and the remedy."""


class EosError(Exception):
    """A problem with its remedy. The command line prints both and no stack trace."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\nRemedy: {self.remedy}"
