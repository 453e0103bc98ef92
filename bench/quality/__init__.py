"""What the qualities and the default of bits per weight do to models, beside quantisers."""
