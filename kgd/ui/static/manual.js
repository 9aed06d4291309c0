// Search in the manual as a folder of files; search-index.js defines the sections and the settings.
// It ranks like kgd/ui/pages/manual.py, and tests compare the two.
(() => {
  "use strict";
  const { sections, common, limit, words: most, snippet: length, covered } = window.manualIndex;
  const field = document.getElementById("manual-q");
  const list = document.getElementById("hits");
  const count = document.getElementById("count");
  const hint = count.textContent;
  const texts = sections.map((one) => `${one.page} ${one.heading} ${one.text}`.toLowerCase());

  const END = "(?![\\p{L}\\p{N}_])";
  const beginning = (word) =>
    word.length < 3 ? word + END : word.length > 3 && word.endsWith("s") ? word.slice(0, -1) : word;
  const pattern = (word, flags) => new RegExp(`(?<![\\p{L}\\p{N}_])${word}`, `u${flags}`);

  const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];
  const isRare = (word) => word.length > 1 && !common.includes(word);

  function begins(section, asked) {
    const titles = [section.page, section.heading].map(split);
    titles.push(...titles.map((title) => title.filter(isRare)));
    return titles.some((title) => asked.every((word, at) => title[at] === word));
  }

  function points(section, words, found, rarity) {
    const longer = 1 + section.text.length / 1000;
    let sum = 0;
    words.forEach((word, at) => {
      const title = pattern(word, "").test(section.page.toLowerCase());
      const heading = pattern(word, "").test(section.heading.toLowerCase());
      sum += rarity[at] * (3 * title + 2 * heading + found[at] / (found[at] + longer));
    });
    return section.factor * sum;
  }

  function find(asked, rare, words) {
    const counts = texts.map((text) => words.map((word) => (text.match(pattern(word, "g")) || []).length));
    const rarity = words.map((_, at) => {
      const matches = counts.filter((row) => row[at]).length;
      return matches ? Math.log(1 + counts.length / matches) : 0;
    });
    const total = rarity.reduce((sum, rare) => sum + rare, 0);
    const bonus = (section) => 100 * begins(section, asked) + 50 * begins(section, rare);
    return counts
      .map((row, number) => ({ row, number }))
      .filter(({ row }) => total && rarity.reduce((sum, rare, at) => sum + (row[at] ? rare : 0), 0) >= covered * total)
      .map(({ row, number }) => ({ number, points: points(sections[number], words, row, rarity) + bonus(sections[number]) }))
      .sort((a, b) => b.points - a.points || a.number - b.number)
      .slice(0, limit)
      .map(({ number }) => sections[number]);
  }

  function excerpt(text, words) {
    const lower = text.toLowerCase();
    const places = words.flatMap((word, at) => [...lower.matchAll(pattern(word, "g"))].map((match) => [match.index, at]));
    let best = 0, most = 0;
    for (const [from] of places.sort((a, b) => a[0] - b[0])) {
      const different = new Set(places.filter(([place]) => place >= from && place < from + length - 40).map((one) => one[1])).size;
      if (different > most) [best, most] = [from, different];
    }
    const start = best > 30 ? text.lastIndexOf(" ", best - 31) + 1 : 0;
    const end = text.length <= start + length ? text.length : Math.max(text.lastIndexOf(" ", start + length - 1), start + 1);
    const shown = document.createElement("p");
    const marked = new RegExp(`((?<![\\p{L}\\p{N}_])(?:${words.join("|")})[\\p{L}\\p{N}_]*)`, "giu");
    shown.append(start ? "… " : "");
    text.slice(start, end).split(marked).forEach((part, number) => {
      shown.append(number % 2 ? element("mark", part) : part);
    });
    shown.append(end < text.length ? " …" : "");
    return shown;
  }

  function element(name, text) {
    const made = document.createElement(name);
    made.append(text);
    return made;
  }

  function show() {
    const query = field.value.trim();
    const asked = [...new Set(split(query))];
    const rare = asked.some(isRare) ? asked.filter(isRare) : asked;
    const words = rare.slice(0, most).map(beginning);
    const found = query ? find(asked, rare, words) : [];
    count.textContent = query ? `${found.length || "No"} result${found.length === 1 ? "" : "s"} for “${query}”` : hint;
    list.replaceChildren(...found.map((section) => {
      const item = document.createElement("li");
      const link = element("a", section.heading);
      link.href = section.address;
      const title = document.createElement("h2");
      title.append(link);
      const where = element("p", section.heading === section.page ? section.group : `${section.group} / ${section.page}`);
      where.className = "aside";
      item.append(title, where, excerpt(section.text, words));
      return item;
    }));
  }

  field.value = new URLSearchParams(location.search).get("q") || "";
  field.addEventListener("input", show);
  show();
})();
