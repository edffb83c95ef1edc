"""Python imports this by itself as it starts, where a test has put its folder into PYTHONPATH: it sabotages a torture's worker."""

import os

if "DUPEPROOF_TORTURE_WORKER" in os.environ and os.environ.get("TORTURE_SABOTAGE"):
    import torture_sabotages

    torture_sabotages.SABOTAGES[os.environ["TORTURE_SABOTAGE"]]()
