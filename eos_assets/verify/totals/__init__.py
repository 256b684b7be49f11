"""Compare totals: the fast proof, which holds or leaves the window to the comparison of rows."""
