#!/bin/sh
# Looks at a page of results in a headless Chromium: no text of a chart lies over another, nothing is wider than
# the window of a phone but what scrolls by itself, and no error stands on its console. Without Chromium
# nothing is checked, and that is said. `page.sh PAGE [FOLDER]` leaves screenshots in the folder.
set -eu

page=${1:-target/bench/quick/index.html}
shots=${2:-}
browser=$(command -v chromium || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "page.sh: skipped, there is no Chromium (on Debian: apt-get install --no-install-recommends chromium)"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$page" - >"$work/page.html" <<'SCRIPT'
<script>
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
  const boxes = texts.map((text) => text.getBoundingClientRect());
  const frame = svg.getBoundingClientRect();
  boxes.forEach((box, at) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1)
      found.push(`outside: ${svg.ariaLabel}: ${texts[at].textContent}`);
    for (let other = at + 1; other < boxes.length; other += 1) {
      const b = boxes[other];
      const across = Math.min(box.right, b.right) - Math.max(box.left, b.left);
      const down = Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top);
      if (across > 1 && down > 3)
        found.push(`overlap: ${svg.ariaLabel}: ${texts[at].textContent} / ${texts[other].textContent}`);
    }
  });
}
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  found.push(`wider than the window: ${document.documentElement.scrollWidth} of ${window.innerWidth}`);
const pre = document.createElement("pre");
pre.id = "found";
pre.textContent = `\nfound ${found.length}\n` + found.map((line) => `found: ${line}\n`).join("");
document.body.append(pre);
</script>
SCRIPT
status=0
for width in 1000 420; do
    set -- --headless --no-sandbox --disable-gpu --hide-scrollbars "--user-data-dir=$work/profile"
    "$browser" "$@" "--window-size=$width,2000" --enable-logging=stderr --v=0 --dump-dom "file://$work/page.html" \
        >"$work/dom" 2>"$work/log" </dev/null || { cat "$work/log"; exit 1; }
    if ! grep -q '^found 0$' "$work/dom"; then
        echo "page.sh: $width wide:"
        grep '^found' "$work/dom" || echo "the page was not looked at"
        status=1
    fi
    if grep 'CONSOLE' "$work/log"; then
        status=1
    fi
    if [ -n "$shots" ]; then
        "$browser" "$@" "--window-size=$width,12000" "--screenshot=$shots/page-$width.png" \
            "file://$(realpath "$page")" 2>/dev/null >/dev/null </dev/null
    fi
done
[ "$status" = 0 ] && echo "page.sh: nothing found"
exit "$status"
