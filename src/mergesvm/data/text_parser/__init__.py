"""The compiled parser of CSV and libsvm text."""
