"""Estimators with the interface of scikit-learn, thin classes around `rkhs.Problem`."""
