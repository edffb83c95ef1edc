"""An app for Django: INSTALLED_APPS += ["dupeproof.django"]. Our tables as migrations, an admin that reads, checks."""
