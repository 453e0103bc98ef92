"""How much the tensors of a model matter: calibrate, refine, and the files of both."""
