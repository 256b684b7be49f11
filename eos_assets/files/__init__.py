"""Files to records: references in, every row of the file as one record out, or nothing of it and the reason."""
