"""Who is a duplicate of whom: ids, content ids, fingerprints and key extraction. No I/O."""
