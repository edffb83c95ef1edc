"""Orders and the messages about them in one transaction, with the tables of dupeproof among Django's migrations.

pip install "dupeproof[django]" && python examples/django_shop/manage.py migrate
"""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
