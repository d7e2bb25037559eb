"""The proximal (least-squares) SVM in closed form, from knowledge."""
