"""Reading and writing people's data: arrays, CSR and files, and batches of rows from them."""

from countjump.data.files import check_suffix, read_matrix, read_names, write_matrix
from countjump.data.rows import Columns, Rows, as_matrix, fingerprint

__all__ = [
    "Columns",
    "Rows",
    "as_matrix",
    "check_suffix",
    "fingerprint",
    "read_matrix",
    "read_names",
    "write_matrix",
]
