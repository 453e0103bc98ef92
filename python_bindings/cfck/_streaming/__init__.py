"""Models that run from a compressed file: each weight is decoded when it is used.

``convert`` replaces the weights of a model by placeholders, after ``plan`` has matched them with
the tensors of the file. ``modules`` has the classes of modules whose weights are placeholders; a
``Supply`` decodes them, the next one ahead in the thread of a ``Worker``.
"""
