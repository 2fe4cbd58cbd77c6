"""The SM86 instruction table, architecture records, PTX sequences and their evidence."""
