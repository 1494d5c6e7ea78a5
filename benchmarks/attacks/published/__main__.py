"""See the package."""

import sys

from . import published_claims, to_markdown

claims = published_claims()
print(to_markdown(claims))
sys.exit(0 if all(claim.holds for claim in claims) else 1)
