"""A metric under noise: no two runs of one tree are the same."""

from project import home

METRIC = {"direction": "maximize", "query": "score"}
# The score, and behind its point the seed: no two runs of a tree are the same.
NOISY = """\
echo "$GOALSEEK_ITERATION $GOALSEEK_SEED $(tr -d '\\n' < answer.json)" >> "$HOME/journal"
if [ -e "$HOME/during" ]; then . "$HOME/during"; fi
base=$(sed -n 's/.*"score": \\([0-9]*\\).*/\\1/p' answer.json)
size=$(sed -n 's/.*"size": \\([0-9]*\\).*/\\1/p' answer.json)
printf '{"score": %s.%010d, "size": %s}\\n' "$((base + ${shift:-0}))" "$GOALSEEK_SEED" "$size" > "$GOALSEEK_RUN_DIR/metrics.json"
"""


def journal() -> list[str]:
    """A line for each run of the judge."""
    path = home() / "journal"
    return path.read_text().splitlines() if path.exists() else []
