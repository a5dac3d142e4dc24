"""Networks of finite depth as they are trained: parametrizations, kinds of blocks, kernels at initialization."""
