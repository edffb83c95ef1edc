"""What about a server, or the way it is set up, would break the guarantee; each with why and the fix."""

from dupeproof.doctor.examination import examine
from dupeproof.doctor.findings import Finding, Report, Severity

__all__ = ["Finding", "Report", "Severity", "examine"]
