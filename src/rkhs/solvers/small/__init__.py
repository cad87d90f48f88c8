"""Problems of a few variables: a quadratic function plus losses on rows, wherever they come from."""
