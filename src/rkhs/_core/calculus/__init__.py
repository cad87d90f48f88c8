"""The calculus of k = phi(q): atoms, pairings, matchings, quadratic forms and polynomials."""
