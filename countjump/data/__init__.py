"""Reading and writing people's data: arrays, CSR and files, batches of rows from them, and known sets of
documents, cells and images."""

from countjump.data.annotated import Annotated, is_anndata
from countjump.data.dialects import Dialect
from countjump.data.documents import Wide, bag_of_words, load, require, tfidf
from countjump.data.files import (
    check_target,
    dialect_for,
    format_of,
    is_frame,
    read_table,
    read_with_dialect,
    write_table,
)
from countjump.data.images import ImageSet, load_images, require_images
from countjump.data.labelled import Labelled
from countjump.data.libraries import MissingLibraryError
from countjump.data.matrices import check_suffix, read_matrix, read_names, write_matrix
from countjump.data.pictures import Pictures
from countjump.data.places import data_directory
from countjump.data.rows import Columns, Rows, as_matrix, fingerprint
from countjump.data.tables import Layout

__all__ = [
    "Annotated",
    "Columns",
    "Dialect",
    "ImageSet",
    "Labelled",
    "Layout",
    "MissingLibraryError",
    "Pictures",
    "Rows",
    "Wide",
    "as_matrix",
    "bag_of_words",
    "check_suffix",
    "check_target",
    "data_directory",
    "dialect_for",
    "fingerprint",
    "format_of",
    "is_anndata",
    "is_frame",
    "load",
    "load_images",
    "read_matrix",
    "read_names",
    "read_table",
    "read_with_dialect",
    "require",
    "require_images",
    "tfidf",
    "write_matrix",
    "write_table",
]
