// What the tests ask of a page, by name: each is a function whose value is the answer.
({
  headings: () => [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => one.tagName),
  // What has no name that can be read aloud: a button, a field, a picture that is not there for decoration alone.
  nameless: () => [...document.querySelectorAll("button, input, summary, svg:not([aria-hidden]), [tabindex='0']")]
    .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 80)),
  focus: () => {
    const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
    return { name: `${one.tagName}.${one.id || one.parentElement.id}`, outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
      seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 };
  },
  // Text that its own box does not show whole, but for code, which scrolls.
  cut_off: () => [...document.querySelectorAll(".wide, td, th, p, li, h1, h2, summary, summary span, dd")]
    .filter((one) => !one.closest(".diff, .unseen, [hidden]") && one.clientWidth && one.scrollWidth > one.clientWidth + 1)
    .map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 60)}`),
  overlapping: () => {
    const texts = [...document.querySelectorAll(".upward span, .lane, .across span")].map((one) => {
      const range = document.createRange();
      range.selectNodeContents(one);
      const box = range.getBoundingClientRect();
      return [one.textContent, box.left, box.right, box.top + 4, box.bottom - 4];
    });
    return texts.flatMap((a, i) => texts.slice(i + 1)
      .filter((b) => a[1] < b[2] && b[1] < a[2] && a[3] < b[4] && b[3] < a[4]).map((b) => [a[0], b[0]]));
  },
  beyond_the_stage: () => [...document.querySelectorAll("#stage .dot, .upward span, .across span")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth;
  }).map((one) => one.outerHTML.slice(0, 80)),
  marks: () => {
    const light = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number)
      .map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const paper = light(getComputedStyle(document.body).backgroundColor), found = {};
    for (const one of document.querySelectorAll("#stage .dot, #stage .line")) {
      const [a, b] = [light(getComputedStyle(one).stroke), paper].sort((x, y) => y - x);
      found[one.getAttribute("class")] = (a + 0.05) / (b + 0.05);
    }
    return found;
  },
  contrasts: () => {
    const light = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number)
      .map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (one) => {
      for (; one; one = one.parentElement) {
        const colour = getComputedStyle(one).backgroundColor;
        if (!/, 0\)$/.test(colour)) return colour;
      }
      return "rgb(255, 255, 255)";
    };
    const found = {};
    for (const one of document.querySelectorAll("h1 span, h2, p, span, td, th, li, summary, button, label, code, dd, dt")) {
      if (!one.textContent.trim() || one.closest(".unseen, [hidden]")) continue;
      const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
      const name = `${one.tagName}.${one.className}`;
      found[name] = Math.min(found[name] ?? 99, (a + 0.05) / (b + 0.05));
    }
    return found;
  },
})
