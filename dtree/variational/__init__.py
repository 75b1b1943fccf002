"""Six variational Dirichlet process mixtures [KWT07]: one E-step, one M-step, every family."""
