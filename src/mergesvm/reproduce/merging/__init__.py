"""Merging weighted SVMs for parallel incremental learning, by Zhu, Ikeda, Pang, Ban and Sarrafzadeh."""
