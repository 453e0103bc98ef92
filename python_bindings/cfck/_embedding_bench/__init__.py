"""The benchmark of compressed embedding lookups (cfck.embeddings.bench)."""
