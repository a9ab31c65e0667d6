"""Reading and writing people's data: arrays, CSR and files, batches of rows from them, and known wide data sets."""

from countjump.data.documents import Wide, bag_of_words, data_directory, load, require, tfidf
from countjump.data.files import check_suffix, check_target, read_matrix, read_names, write_matrix
from countjump.data.rows import Columns, Rows, as_matrix, fingerprint
from countjump.data.tables import Layout

__all__ = [
    "Columns",
    "Layout",
    "Rows",
    "Wide",
    "as_matrix",
    "bag_of_words",
    "check_suffix",
    "check_target",
    "data_directory",
    "fingerprint",
    "load",
    "read_matrix",
    "read_names",
    "require",
    "tfidf",
    "write_matrix",
]
