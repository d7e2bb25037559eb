"""Pictures tagged by brush strokes: strokes become rows, rows become pieces, and models find the tag elsewhere.

The steps are those of section 5 of the paper by Alpcan and Bauckhage. Pillow reads the pictures:
``pip install 'mergesvm[app]'``.
"""
