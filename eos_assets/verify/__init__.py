"""The proof: every invariant, evaluated on the committed records in the topics.

`verify` has the steps in their order: `window` is read, `totals` are compared and, if they differ, `rows`; `findings`
evaluates the invariants; `checkpoint` keeps where the next proof begins.
"""
