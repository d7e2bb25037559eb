"""The sources of knowledge: which pieces are inside, and which rows were retired.

Every piece has a random id, made when it is learned. Ids are compared when knowledge is merged or subtracted, so that
no piece counts twice or is subtracted twice. Pieces of files of earlier formats have none, and only their counts are
compared.
"""
