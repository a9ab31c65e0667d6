"""Reading people's data: arrays and CSR, and batches of rows from them."""

from countjump.data.rows import Columns, Rows, as_matrix, fingerprint

__all__ = ["Columns", "Rows", "as_matrix", "fingerprint"]
