"""Many problems with one Gram: classes, folds and cells of a grid share directions, products and checks."""
