"""Transformers of images that are rows of X: nothing is learnt but how many pixels there are."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs._backend.arrays import Images
from rkhs.invariances.images import as_images, as_shape

KINDS = [np.float64, np.float32]


class ImageTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """X (t, rows * columns) -> images -> other images, or what can be said of them, as rows of the same type."""

    shape: Any

    @abstractmethod
    def _transformed(self, images: Images) -> Images:
        """For each image an array of numbers: another image, or features."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that rows are images of the shape; nothing else is learnt."""
        as_images(validate_data(self, X, dtype=KINDS), as_shape(self.shape))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Images:
        """The transformed images, as rows."""
        return self.fit(X).transform(X)

    def transform(self, X: Any) -> Images:
        """The transformed images, as rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=KINDS, reset=False)
        images = self._transformed(as_images(X, as_shape(self.shape)))
        return images.reshape(len(X), -1).astype(X.dtype, copy=False)
