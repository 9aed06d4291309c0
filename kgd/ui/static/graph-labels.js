// Room for the labels of the graph: the width of a text, and the areas that are already covered.
"use strict";
const GraphLabels = (() => {
  const TEXT = 13, HIGH = 16, CELL = 64;
  const measure = document.createElement("canvas").getContext("2d");
  const widths = new Map();

  function width(text) {
    if (!widths.has(text)) {
      measure.font = `700 ${TEXT}px system-ui, sans-serif`;
      widths.set(text, measure.measureText(text).width + 2);
    }
    return widths.get(text);
  }

  // A text of at most so many characters; a group keeps its number of nodes, which is the last word.
  function cut(text, longest, isGroup) {
    const [, name, count] = isGroup ? /^(.*?)( \S+)?$/s.exec(text) : ["", text, ""], room = longest - (count || "").length;
    const letters = [...name];
    return letters.length <= room ? text : letters.slice(0, room - 1).join("").replace(/[ ,.;:-]+$/, "") + "…" + (count || "");
  }

  // A text in at most so many lines of a width; the last line is cut.
  function wrapped(text, room, most) {
    const lines = [];
    for (const word of text.split(" ")) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (lines.length && (lines.length === most || width(longer) <= room)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.map((line) => (width(line) <= room ? line : cut(line, Math.max(4, Math.floor([...line].length * room / width(line)) - 1))));
  }

  // The areas already covered, indexed by cells.
  class Taken {
    cells = new Map();
    *near([left, top, right, bottom]) {
      for (let x = Math.floor(left / CELL); x <= right / CELL; x++) for (let y = Math.floor(top / CELL); y <= bottom / CELL; y++) yield `${x} ${y}`;
    }
    take(area, ...by) {
      for (const cell of this.near(area)) this.cells.has(cell) ? this.cells.get(cell).push([area, by]) : this.cells.set(cell, [[area, by]]);
    }
    hasRoom(area, ...but) {
      for (const cell of this.near(area)) for (const [[left, top, right, bottom], by] of this.cells.get(cell) || []) {
        if (!but.some((one) => by.includes(one)) && area[0] < right && left < area[2] && area[1] < bottom && top < area[3]) return false;
      }
      return true;
    }
  }

  return { HIGH, Taken, cut, width, wrapped };
})();
