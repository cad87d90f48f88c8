"""`rkhs play`: a page on this computer on which points are painted and the fitted function is drawn at once."""
