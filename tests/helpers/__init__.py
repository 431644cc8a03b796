"""What several tests share: problems, oracles that nobody here wrote, processes with a deadline."""
