"""What users need to test their own code with dupeproof: real servers, started and ended for a test run."""
