"""Golden files: what a model computes from fixed weights and inputs, module by module, written down so that another
framework, device or release can be held against it. The Python side of `assay golden` and `assay compare`."""
