"""The web application in which pictures are tagged. It needs ``pip install 'mergesvm[app]'``."""
