"""This command measures what qualities and bits per weight do to models, beside quantisers."""
