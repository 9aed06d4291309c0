// The picture of the graph: fits it to the window, places labels, zooms, drags, and shows the card of a node.
// Without it, the whole picture is shown at its own size, and every node is a link.
"use strict";
(() => {
  const NEAREST = 24, FURTHEST = 0.5, STEP = 1.3, LARGEST = 3;
  const ABOVE = 54, BELOW = 30;  // free, for buttons over the picture and for labels
  const LENGTHS = [26, 14], LONGEST = [90, 64, 56, 48, 42, 37, 33, 29];  // to which labels are cut, and to which they grow if there is room
  const LINES = [4, 3, 2, 1];  // of the label of a node in a group, which are as wide as its column and keep to its row
  const TITLE = [10, 16];  // of a box
  const BLOCKS = [[180, 2], [150, 3], [240, 2]];  // width and number of the lines of a long name
  const FIRST = 2, WIDEST_FIRST = 160;  // number of lines below a group that name some of its nodes, and their largest width
  const SMALLER = 0.87;  // width of their text, relative to that of a label
  const EDGE = 0.76, SMALL = 34;  // distance of a badge by the size of its group; radius of a group that badges would cover
  const CROSSED = 400;  // largest number of lines that labels avoid
  const BENDS = [0.06, -0.06, 0.12, -0.12, 0.16, -0.16, 0.2, -0.2, 0.3, -0.3];  // offsets of a line around labels, as shares of its length
  const SPACE = { start: 0, middle: 2, end: 4 };  // distance by which a final space shifts its text
  const WIDEST = 300;  // largest width of a name beside a column
  const LISTED = 70;  // largest number of nodes around starts that are in columns in any window
  const ROW = 40, PHONE = 390, LAPTOP = 330;  // height of a row, and widths of a tall and of a wide window, in which columns have their own size
  const GAP = 4, AT_ONCE = 400, REST = 120, NAMED = 40, DENSE = 600, UNNAMED = 60, FEW = 60, LEAST = 600, NAME = 104;
  const { HIGH, Taken, cut, width, wrapped } = GraphLabels;
  // Of a path: least width of a step in a row, width of its text in a row and in a column, height in a column, room below;
  // largest scale, and largest width of a step in a row.
  const STEP_WIDE = 200, STEP_TEXT = 240, COLUMN_TEXT = 480, STEP_HIGH = 96, BELOW_STEPS = 140, ENLARGED = 1.7, APART = 320;
  const BELOW_GROUPS = 20;  // room between the lowest group and the legend
  const LARGER = 1.16, LINE = 18;  // size of its text, by that of other labels, and height of a line
  const SHARES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9];  // places of a text on a line between groups
  const LEAST_PAD = 58;  // half of a short label
  const SHAPE = 3.5, OF_TYPES = 7;  // least radius of the shape of a node in a group, and largest number of shapes that replace smaller ones
  const STRETCH = { rings: 2, path: 4, groups: 1.8 };  // largest ratio of the scales of both axes
  const by = (id) => document.getElementById(id), within = (value, least, most) => Math.max(least, Math.min(most, value));
  // The scene on the page, and the view of it: a place (x, y) is painted at (x * kx, y * ky), less the view's corner, in units of `scale` pixels.
  let svg = null, kind = "rings", isTall = false, dots = [], lines = [], rings = [], box = null, taken = null;
  let view = { kx: 1, ky: 1, x: 0, y: 0 }, scale = 1, fit = 1, fitted = true, seenAt = "", moved = new Map(), resting = 0;

  const size = (dot) => (dot.group ? dot.size * Math.min(view.kx, view.ky) : dot.size);
  const half = (dot) => (dot.open ? [dot.wide / 2 * view.kx, dot.high / 2 * view.ky] : [size(dot), size(dot)]);
  const at = (dot) => [dot.x * view.kx, dot.y * view.ky];
  const wide = () => svg.getBoundingClientRect().width / scale, high = () => svg.getBoundingClientRect().height / scale;
  const inPicture = ({ clientX, clientY }) => { const { x, y } = svg.getBoundingClientRect(); return [(clientX - x) / scale, (clientY - y) / scale]; };
  const near = () => view.kx / fit;
  // The part of the picture that the card does not cover: beside it and, if asked, above it.
  function free(above = false) {
    const card = by("card"), area = svg.getBoundingClientRect(), over = card.firstElementChild ? card.getBoundingClientRect() : null;
    if (!over) return [wide(), high()];
    const isBeside = over.width < area.width / 2;
    return [isBeside ? wide() - over.width / scale : wide(), isBeside || !above ? high() : within((over.top - area.top) / scale, 60, high())];
  }
  // Around starts, few nodes, or those in a tall window, are in columns beside the middle, with their labels outside.
  const inColumns = () => kind === "rings" && isTall;
  const set = (element, values) => { for (const name in values) element.setAttribute(name, values[name]); };

  function read() {
    const place = by("picture").dataset.view;
    if (place !== seenAt) moved = new Map();
    kind = svg.dataset.arrangement;
    dots = [...svg.querySelectorAll(":scope > .dot")].map((link) => {
      const label = link.querySelector(".label"), text = label.textContent;
      const figure = link.querySelector(".figure");
      return { link, label, uri: link.dataset.uri, text, full: link.dataset.name || text, figure, hue: figure.classList[1],
        parts: link.querySelector(".parts"), badges: [], told: link.querySelector("title").textContent.split("\n")[1], group: link.classList.contains("group"),
          open: link.classList.contains("open"),
        first: link.dataset.first?.split("\n") || [],
        said: link.ariaLabel?.replace(/, shown as .*$/, ""), isStart: label.hasAttribute("font-weight"), marks: link.querySelector(".mark") ? 4 : 0 };
    });
    lines = [...svg.querySelectorAll(".lines path")].map((path) => {
      const [a, b] = path.dataset.ends.split(" ").map((number) => dots[number]);
      return { path, a, b, arrow: path.hasAttribute("marker-end"), names: path.textContent, bend: null };
    });
    rings = [...svg.querySelectorAll(".rings ellipse")].map((ellipse) => ({ ellipse, r: ellipse.rx.baseVal.value }));
    for (const badge of svg.querySelectorAll(".badges > .mark")) dots[badge.dataset.of].badges.push(badge);
    svg.classList.toggle("dense", lines.length > DENSE);
    arrange();
    return place;
  }

  // Takes the places for a tall or a wide window, and their extent. A path is a row if it has room for the texts.
  const wantsTall = () => (kind === "path" ? free()[0] * scale < STEP_WIDE * dots.length : wide() < high() || (kind === "rings" && dots.length <= LISTED));
  function arrange() {
    isTall = wantsTall();
    svg.classList.toggle("columns", inColumns());
    for (const dot of dots) {
      const { tall, wide } = dot.link.dataset, [x, y, first, second, deep] = ((isTall && tall) || wide).split(" ").map(Number);
      const sizes = dot.open ? { size: Math.min(first, second) / 2, wide: first, high: second } : { size: first, room: second, deep };
      Object.assign(dot, { x, y, drawn: Number(wide.split(" ")[2]) }, sizes, moved.get(dot.uri));
    }
    for (const line of lines) line.bend = line.given = ((isTall && line.path.dataset.tall) || line.path.dataset.wide)?.split(" ").map(Number);
    box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
    for (const { x, y, size, group, open, wide, high } of dots) {
      const [w, h] = open ? [wide / 2, high / 2] : group ? [Math.max(size, NAME / 2), size] : [0, 0];
      box.left = Math.min(box.left, x - w); box.right = Math.max(box.right, x + w);
      box.top = Math.min(box.top, y - h); box.bottom = Math.max(box.bottom, y + h + (group && !open ? HIGH + GAP : 0));
    }
    if (inColumns()) box.right = -(box.left = Math.min(box.left, -box.right));  // the labels of both sides have the same room
  }

  // Paints every place again: text and figures keep their size at each zoom.
  function paint(atOnce = true) {
    for (const dot of dots) {
      const [x, y] = at(dot);
      dot.link.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      if (dot.open) {
        const [w, h] = half(dot);
        set(dot.figure, { x: -w, y: -h, width: 2 * w, height: 2 * h });
        pin(dot);
      } else if (dot.group) {
        dot.figure.setAttribute("r", size(dot).toFixed(1));
        dot.parts?.setAttribute("transform", `scale(${(size(dot) / dot.drawn).toFixed(3)})`);
        if (dot.parts) gather(dot);
        pin(dot);
      }
    }
    for (const line of lines) {
      line.bend = line.given;
      stretch(line);
    }
    for (const { ellipse, r } of rings) set(ellipse, { rx: r * view.kx, ry: r * view.ky });
    clearTimeout(resting);
    if (atOnce || dots.length <= AT_ONCE) place();
    else resting = setTimeout(place, REST);
    pan();
    spot();
  }

  // In a small circle, where the shapes of its nodes could not be told apart, each type has one large shape.
  function gather(dot) {
    const paths = [...dot.parts.querySelectorAll("path")], scale = size(dot) / dot.drawn;
    dot.shapes ||= paths.map((path) => {
      const all = path.getAttribute("d"), one = `M${all.split("M")[1]}`;
      path.setAttribute("d", one);
      const { x, y, width, height } = path.getBBox();
      path.setAttribute("d", all);
      return { path, all, one, x: x + width / 2, y: y + height / 2, radius: Math.max(width, height) / 2 };
    });
    const isSmall = dot.shapes.some(({ radius }) => radius * scale < SHAPE);
    if (!isSmall && !dot.isGathered) return;
    dot.isGathered = isSmall;
    const shown = dot.shapes.slice(0, OF_TYPES), around = Math.min(shown.length, 6);
    dot.shapes.forEach(({ path, all, one, x, y, radius }, number) => {
      path.setAttribute("d", isSmall ? one : all);
      path.removeAttribute("display");
      if (!isSmall) return path.removeAttribute("transform");
      if (number >= OF_TYPES) return path.setAttribute("display", "none");
      const turn = 2 * Math.PI * number / around - Math.PI / 2, away = shown.length === 1 || number === 6 ? 0 : dot.drawn * 0.56;
      const times = Math.min(Math.max(5.5, size(dot) * 0.2) / scale, dot.drawn * 0.3) / radius;
      const [right, down] = [away * Math.cos(turn), away * Math.sin(turn)].map((one) => one.toFixed(2));
      path.setAttribute("transform", `translate(${right} ${down}) scale(${times.toFixed(3)}) translate(${-x} ${-y})`);
    });
  }

  // The numbers on the edge of a group, beside a small circle, or beside the title of a box.
  function pin(dot) {
    const [x, y] = at(dot), [w, h] = half(dot), isSmall = w < SMALL, edge = EDGE * size(dot);
    let free = w - TITLE[0];
    for (const badge of dot.badges) {
      const long = badgeWidth(badge), isBelow = badge.matches(".proposed"), across = isSmall ? (isBelow ? w : edge) + long / 3 : edge + long / 2;
      let right = badge.matches(".conflict") ? across : -across, down = isSmall ? (isBelow ? GAP : -edge - GAP) : isBelow ? edge : -edge;
      if (dot.open) [right, down, free] = [free - long / 2, TITLE[1] - h, free - long - GAP];
      badge.setAttribute("transform", `translate(${(x + right).toFixed(1)} ${(y + down).toFixed(1)})`);
      badge.area = [x + right - long / 2, y + down - HIGH / 2, x + right + long / 2, y + down + HIGH / 2];
    }
  }
  const badgeWidth = (badge) => badge.firstElementChild.width.baseVal.value;

  function stretch(line) {
    const { path, a, b, arrow, bend } = line;
    const [, , aRight = 0, aDown = 0, bRight = 0, bDown = 0] = bend || [];  // the ends at boxes, from their centres
    const anchor = (dot, right, down) => [(dot.x + right) * view.kx, (dot.y + down) * view.ky];
    const [ax, ay] = anchor(a, aRight, aDown), [bx, by] = anchor(b, bRight, bDown);
    const usual = kind === "groups" ? 0.22 * Math.min(1, 320 / Math.hypot(bx - ax, by - ay)) : 0;
    const [right, down] = bend ? [bend[0] * view.kx, bend[1] * view.ky] : [(by - ay) * usual, (ax - bx) * usual];
    const over = [(ax + bx) / 2 + right, (ay + by) / 2 + down];
    // A line between nodes ends at the edges of both; one between groups begins behind their circles.
    const edge = (dot, beyond, x, y) => {
      const share = bend && kind === "groups" ? 0 : Math.min(1, (size(dot) + beyond) / (Math.hypot(over[0] - x, over[1] - y) || 1));
      return [x + (over[0] - x) * share, y + (over[1] - y) * share];
    };
    line.curve = [edge(a, 0, ax, ay), over, edge(b, arrow ? 3 : 0, bx, by)];
    const [from, middle, to] = line.curve.map((spot) => spot.map((number) => number.toFixed(1)).join(" "));
    path.setAttribute("d", `M${from}${bend || kind === "groups" ? `Q${middle} ` : "L"}${to}`);
  }
  // A point of a line.
  function along({ curve: [begin, over, end] }, t) {
    return [0, 1].map((axis) => (1 - t) ** 2 * begin[axis] + 2 * t * (1 - t) * over[axis] + t ** 2 * end[axis]);
  }

  function pan() {
    svg.setAttribute("viewBox", `${view.x.toFixed(1)} ${view.y.toFixed(1)} ${wide()} ${high()}`);
    show();
  }

  const ANCHORS = { left: "end", right: "start", title: "start" };
  function sides(dot) {
    if (dot.open) return ["title"];
    if (kind === "groups") return ["below", "above", "right", "left"];
    if (inColumns()) return [dot.x < 0 ? "left" : "right"];
    return dot.x < -1e-9 ? ["left", "right", "below", "above"] : ["right", "left", "below", "above"];
  }
  function around(dot, side, text = dot.text) {
    const rows = text.split("\n"), long = Math.max(...rows.map(width)), tall = rows.length * HIGH;
    const [x, y] = at(dot), away = size(dot) + GAP + dot.marks;
    if (side === "title") {
      const [w, h] = half(dot), left = x - w + TITLE[0], top = y - h + TITLE[1] - HIGH / 2;
      return [left, top, left + long, top + HIGH];
    }
    const left = side === "left" ? x - away - long : side === "right" ? x + away : x - long / 2;
    const top = side === "above" ? y - away - tall : side === "below" ? y + away : y - tall / 2;
    return [left, top, left + long, top + tall];
  }

  const beyond = (side, [left, top, right, bottom]) => [left, top - (side === "above" ? HIGH : 0), right, bottom + (side === "below" ? HIGH : 0)];

  // Shows the labels for which there is room, the selected node and the nearest nodes first. Then cut labels grow where
  // there is room. At first, a label must also be inside of the window.
  function place() {
    taken = new Taken();
    for (const dot of dots) {
      const [x, y] = at(dot), [w, h] = half(dot);
      const edges = dot.open ? [[x - w, y - h, x + w, y - h], [x - w, y + h, x + w, y + h], [x - w, y - h, x - w, y + h], [x + w, y - h, x + w, y + h]]
        : [[x - w - 1, y - h - 1, x + w + 1, y + h + 1]];
      for (const edge of edges) taken.take(edge, dot);
      for (const { area } of dot.badges) taken.take(area, dot);
    }
    const crossed = kind === "rings" && lines.length <= CROSSED ? crossings() : new Taken();
    const isFit = fitted || near() <= 1.01, [across, down] = free();
    const hasRoom = (dot, [left, top, right, bottom]) => {
      if (isFit && (left < view.x || right > view.x + across || top < view.y || bottom > view.y + down)) return false;
      const beside = dot.badges.reduce((sum, badge) => sum + badgeWidth(badge) + GAP, TITLE[0]);
      if (dot.open && right > at(dot)[0] + half(dot)[0] - beside) return false;
      return taken.hasRoom([left, top, right, bottom], dot, dot.label);
    };
    const show = (dot, text, side) => {
      Object.assign(dot, { text, side });
      taken.take(around(dot, side), dot.label);
    };
    const needsWork = (dot) => dot.link.querySelector(".mark:is(.conflict, .unverified)");
    const first = (dot) => (dot.link.hasAttribute("aria-current") ? 0 : dot.isStart || dot.open ? 1 : needsWork(dot) ? 2 : 3);
    const ordered = [...dots].sort((a, b) => first(a) - first(b));
    if (kind === "path") return placeSteps(ordered);
    for (const dot of ordered) {
      dot.side = "";
      const rows = Math.max(1, (dot.deep * view.ky - 2 * (dot.size + GAP)) / HIGH);
      const lines = (dot.room ? LINES.filter((most) => most <= rows) : []).map((most) => wrapped(dot.full, dot.room * view.kx, most).join("\n"))
        .filter((text) => !text.slice(0, -1).includes("…"));  // a column may be too narrow for a word
      if (inColumns()) {
        const text = inRows(dot).find((one) => hasRoom(dot, around(dot, sides(dot)[0], one)));
        if (text) show(dot, text, sides(dot)[0]);
        continue;
      }
      // Around starts, a long name has two or three lines; a place that no line crosses is preferred.
      const whole = kind === "rings" && dot.full.length > LENGTHS[0] ? BLOCKS.map((block) => wrapped(dot.full, ...block).join("\n")) : [];
      const texts = [...new Set([...lines, ...whole, ...LENGTHS.map((long) => cut(dot.full, long, dot.group))])];
      const every = texts.flatMap((text) => (lines.includes(text) ? ["below"] : sides(dot)).map((side) => [text, side]))
        .filter(([text, side]) => hasRoom(dot, around(dot, side, text)));
      // Between two nodes, a label could be that of either.
      const apart = every.filter(([text, side]) => kind !== "rings" || taken.hasRoom(beyond(side, around(dot, side, text)), dot, dot.label));
      const places = apart.length ? apart : every;
      const isClear = (...own) => ([text, side]) => text.length > LENGTHS[1] && crossed.hasRoom(around(dot, side, text), ...own);
      const clear = (some) => some.find(isClear()) || some.find(isClear(dot));
      const [text, side] = clear(places.filter(([text]) => !text.includes("…"))) || clear(places) || places[0] || [];
      if (side) show(dot, text, side);
    }
    for (const dot of ordered) {
      if (!dot.side || !dot.text.includes("…")) continue;
      const longer = (inColumns() ? inRows(dot, 1) : [dot.full, ...LONGEST.map((long) => cut(dot.full, long, dot.group))])
        .find((text) => text.length > dot.text.length && hasRoom(dot, around(dot, dot.side, text)) && crossed.hasRoom(around(dot, dot.side, text), dot));
      if (longer) show(dot, longer, dot.side);
    }
    if ((kind === "rings" || kind === "groups") && lines.length <= CROSSED) lines.forEach(bendAround);
    for (const dot of dots) {
      if (!dot.side) dot.text = cut(dot.full, LENGTHS[0], dot.group);
      const [x, y] = at(dot), shown = dot.side || sides(dot)[0], area = around(dot, shown);
      const right = (shown === "left" ? area[2] - x : ANCHORS[shown] ? area[0] - x : 0).toFixed(1);
      set(dot.label, { "text-anchor": ANCHORS[shown] || "middle", y: (area[1] + HIGH / 2 - y).toFixed(1), x: right });
      if (dot.group) {
        const name = dot.text.slice(0, dot.text.lastIndexOf(" "));
        dot.label.firstChild.data = name;
        dot.label.lastElementChild.textContent = dot.text.slice(name.length);
      } else rewrite(dot.label, dot.text.split("\n"), right);
      showLabel(dot);
    }
    if (kind === "groups") nameFirst();
    listUnnamed(dots.filter((dot) => !dot.side));
    name();
  }
  // Names some of the nodes of a group below it, where no line passes.
  function nameFirst() {
    svg.querySelectorAll(".first").forEach((text) => text.remove());
    const crossed = crossings(), [across, down] = free();
    for (const dot of dots) {
      let [, , , y] = dot.side === "below" && size(dot) >= SMALL ? around(dot, "below") : [];
      const end = y + FIRST * HIGH, [x] = at(dot);
      for (const full of y ? dot.first : []) {
        const rows = wrapped(full, WIDEST_FIRST / SMALLER, FIRST), half = Math.max(...rows.map(width)) * SMALLER / 2;
        const area = [x - half, y, x + half, y + rows.length * HIGH];
        const isInside = !fitted || (x - half > view.x && x + half < view.x + across && area[3] < view.y + down);
        if (area[3] > end || !isInside || !taken.hasRoom(area) || !crossed.hasRoom(area)) continue;
        taken.take(area, full);
        for (const row of rows) {
          write("first", row, x, y + HIGH / 2);
          y += HIGH;
        }
      }
    }
  }
  // The name of a node in a column, in as many lines as its row has, or more.
  function inRows(dot, more = 0) {
    const beside = free()[0] / 2 - Math.abs(at(dot)[0]) - size(dot) - 2 * GAP - dot.marks;
    const room = fitted ? within(beside, LEAST_PAD, WIDEST) : WIDEST;
    return LINES.filter((most) => most * HIGH <= Math.max(HIGH, ROW * view.ky) + more * HIGH).map((most) => wrapped(dot.full, room, most).join("\n"));
  }
  // Bends a line that crosses a label, or the figure of another node, as little as possible.
  function bendAround(line) {
    // A line between two boxes crosses their edges in any case. The bold name of a group is wider than its area.
    const { a, b, given } = line, apart = kind === "groups" ? 4 : 2, own = [a, b, ...dots.filter((dot) => dot.open)];
    const [ax, ay] = at(a), [bx, by] = at(b), steps = Math.ceil(Math.hypot(bx - ax, by - ay) / 8);
    const hits = () => {
      let count = 0;
      for (let n = 1; n < steps; n++) {
        const [x, y] = along(line, n / steps);
        if (!taken.hasRoom([x - apart, y - apart, x + apart, y + apart], ...own)) count += 1;
      }
      return count;
    };
    line.bend = given;
    stretch(line);
    let least = hits(), best = line.bend;
    for (const share of least ? BENDS : []) {
      line.bend = [(by - ay) * share / view.kx, (ax - bx) * share / view.ky, ...(given || []).slice(2)];
      stretch(line);
      const count = hits();
      if (count < least) [least, best] = [count, line.bend];
      if (!least) break;
    }
    if (line.bend === best) return;
    line.bend = best;
    stretch(line);
  }
  // The areas that lines cross; a label may touch the lines of its own node.
  function crossings() {
    const crossed = new Taken();
    for (const line of lines) {
      const [[ax, ay], , [bx, by]] = line.curve, steps = Math.max(2, Math.ceil(Math.hypot(bx - ax, by - ay) / 12));
      for (let n = 0; n <= steps; n++) {
        const [x, y] = along(line, n / steps);
        crossed.take([x - 1, y - 1, x + 1, y + 1], line.a, line.b);
      }
    }
    return crossed;
  }
  // Keeps the elements if it can: a double click needs two clicks on the same one.
  function rewrite(label, rows, x) {
    const anchor = label.getAttribute("text-anchor");
    const { childNodes, childElementCount } = label, inRows = rows.length > 1 ? rows.length : 0;
    // The first line of the drawing's own label is not in an element.
    if (childElementCount !== inRows || (inRows && childNodes.length !== inRows)) label.replaceChildren(...(rows.length > 1 ? inLines(rows, x, HIGH) : rows));
    else if (rows.length === 1) label.firstChild.data = rows[0];
    else inLines(rows, x).forEach(({ textContent }, number) => { Object.assign(label.children[number], { textContent }).setAttribute("x", x); });
  }
  function showLabel(dot) {
    const text = dot.text.replaceAll("\n", " ");
    if (dot.said) dot.link.ariaLabel = text === dot.full ? dot.said : `${dot.said}, shown as ${text}`;
    if (dot.side) dot.label.removeAttribute("display");
    else dot.label.setAttribute("display", "none");
  }

  // The texts of a path: names and summaries in lines, below a row of nodes or beside a column.
  function placeSteps(ordered) {
    svg.querySelectorAll(".told").forEach((text) => text.remove());
    const apart = dots.length > 1 ? Math.hypot(at(dots[1])[0] - at(dots[0])[0], at(dots[1])[1] - at(dots[0])[1]) : Infinity;
    for (const dot of ordered) {
      const [x, y] = at(dot), away = size(dot) + 3 * GAP;  // beyond corners and the ring of a start
      // The font of a name is larger than the one that is measured.
      const room = isTall ? Math.min(COLUMN_TEXT, Math.max(120, free()[0] - (x - view.x) - away - 12)) : Math.min(STEP_TEXT, Math.max(120, apart - 24));
      const names = wrapped(dot.full, room / LARGER, isTall ? 2 : 4), told = dot.told ? wrapped(dot.told, room, isTall ? 2 : 3) : [];
      const long = Math.max(...names.map(width)) * LARGER, left = isTall ? x + away : x - long / 2;
      const block = (count) => { const top = isTall ? y - count * LINE / 2 : y + away; return [left, top, left + long, top + count * LINE]; };
      const summary = [told, []].find((lines) => taken.hasRoom(block(names.length + lines.length), dot));
      const [, top] = block(names.length + (summary || []).length), anchor = isTall ? "start" : "middle", at0 = isTall ? away : 0;
      Object.assign(dot, { text: names.join(" "), side: summary ? "step" : "" });
      set(dot.label, { "text-anchor": anchor, x: at0, y: top - y + LINE / 2 });
      dot.label.replaceChildren(...inLines(names, at0, LINE, anchor));
      showLabel(dot);
      if (!summary) continue;
      taken.take(block(names.length + summary.length), dot);
      if (!summary.length) continue;
      const text = write("told", "", x + at0, top + (names.length + 0.5) * LINE);
      text.setAttribute("text-anchor", anchor);
      text.append(...inLines(summary, x + at0, LINE, anchor));
    }
    listUnnamed(dots.filter((dot) => !dot.side));
    name();
  }
  // A space between two lines has a width, too.
  function inLines(lines, x, apart = LINE, anchor = "start") {
    return lines.map((line, number) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", "tspan"), space = number < lines.length - 1 ? " " : "";
      made.textContent = line + space;
      set(made, { x: Number(x) + (space && SPACE[anchor]), dy: number ? apart : ".35em" });
      return made;
    });
  }

  function write(kind, words, x, y) {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.classList.add(kind);
    text.textContent = words;
    set(text, { x: x.toFixed(1), y: y.toFixed(1), dy: ".35em" });
    svg.append(text);
    return text;
  }

  // Links to the nodes without a label.
  function listUnnamed(unnamed) {
    const rest = by("rest"), made = unnamed.slice(0, UNNAMED).map((dot) => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = dot.link.href.baseVal;
      link.textContent = dot.full;
      item.append(link);
      return item;
    });
    rest.hidden = !made.length;
    rest.querySelector("summary").textContent = `${unnamed.length.toLocaleString("en")} without a label`;
    rest.querySelector("ul").replaceChildren(...made);
  }

  const isUnusual = (line) => line.names !== svg.dataset.usual;

  // Names the relations of a node or of a line; without one, those of the selected node or of a path. Otherwise lines
  // between groups have their number of relations, those with the most first, and few lines of cheapest paths the names
  // that are unusual; other unusual lines show only at their node.
  function name(pointed = dots.find((dot) => dot.link.hasAttribute("aria-current"))) {
    svg.querySelectorAll(".relation").forEach((text) => text.remove());
    const of = (line) => line === pointed || line.a === pointed || line.b === pointed;
    const named = kind === "path" ? lines : lines.filter(of);
    svg.classList.toggle("pointed", kind !== "path" && named.length > 0);
    for (const line of lines) {
      line.path.classList.toggle("near", kind !== "path" && of(line));
      line.path.classList.toggle("unusual", kind === "rings" && lines.length <= FEW && isUnusual(line));
    }
    const used = new Taken();
    const counted = kind === "groups" ? lines.filter((line) => !line.arrow).reverse() : [];
    const unusual = [];  // one of the lines of one relation that meet in a node
    const paths = kind === "rings" && lines.length <= FEW && wide() > LEAST ? lines.filter((one) => one.path.classList.contains("path")) : [];
    for (const line of paths.filter(isUnusual)) {
      if (!unusual.some((one) => one.names === line.names && [one.a, one.b].some((end) => end === line.a || end === line.b))) unusual.push(line);
    }
    for (const line of named.length ? named.slice(-NAMED) : [...counted, ...unusual].slice(0, NAMED)) {
      // Between groups, the number alone if there is no room for the words.
      const ofGroups = [named.length ? line.names : "", line.names.split(" ")[0]].filter(Boolean);
      const texts = kind === "path" ? [directed(line)] : kind === "rings" ? [line.names] : ofGroups;
      const shares = kind !== "rings" || !named.length ? SHARES : [line.a === pointed ? 0.62 : line.b === pointed ? 0.38 : 0.5];
      const around = (text, [x, y]) => [x - width(text) / 2, y - HIGH / 2, x + width(text) / 2, y + HIGH / 2];
      const beside = (text, [x, y]) => (kind !== "path" ? [x, y] : isTall ? [x + width(text) / 2 + 8, y] : [x, y - HIGH * 0.75]);
      const hasRoom = (area) => taken.hasRoom(area) && used.hasRoom(area);
      const places = texts.flatMap((text) => shares.map((share) => [text, beside(text, along(line, share))]));
      const [text, spot] = places.find((one) => one[0] && hasRoom(around(...one))) || [];
      if (!spot) continue;
      used.take(around(text, spot), line);
      write("relation", text, ...spot);
    }
  }

  // The relations of a step with the direction in which they lead.
  function directed({ a, b, names }) {
    const [from, to] = isTall ? [a.y, b.y] : [a.x, b.x];
    return !names ? "" : isTall ? `${names} ${from < to ? "↓" : "↑"}` : from < to ? `${names} →` : `← ${names}`;
  }

  // Whether the folded controls lie over the upper edge of the picture.
  const isCovered = () => getComputedStyle(document.querySelector(".side")).position === "absolute";

  function all() {
    if (isTall !== wantsTall()) arrange();
    const isRow = kind === "path" && !isTall;
    const [wholeWidth, wholeHeight] = free().map((size) => size * scale);
    const larger = isRow ? wholeWidth / (APART * (dots.length - 1) + STEP_TEXT)
      : Math.min(wholeWidth / (COLUMN_TEXT + 80), wholeHeight / (STEP_HIGH * dots.length));
    scale = kind === "path" ? within(larger, 1, ENLARGED) : 1;
    const [across, down] = free();
    const pad = kind === "groups" ? 8 : isRow ? STEP_TEXT / 2 + 8 : kind === "path" ? across / 2 - 40 : within(across / 8, LEAST_PAD, 140);
    const margin = { groups: 8, path: 56, rings: BELOW }[kind];
    const above = Math.max(margin, isCovered() ? ABOVE + (kind === "path" ? 40 : 0) : 0);
    const below = isRow ? BELOW_STEPS : kind === "groups" ? BELOW_GROUPS : margin;
    const w = Math.max(60, across - 2 * pad), h = Math.max(60, down - above - below);
    let kx = Math.min(w / Math.max(1, box.right - box.left), LARGEST), ky = Math.min(h / Math.max(1, box.bottom - box.top), LARGEST);
    if (isRow) kx = Math.min(kx, Math.min(0.8 * across, APART * (dots.length - 1)) / Math.max(1, box.right - box.left));
    kx = inColumns() ? across / (wide() < high() ? PHONE : LAPTOP) : Math.min(kx, ky * STRETCH[kind]);
    ky = Math.min(ky, kx * STRETCH[kind]);
    fit = kx;
    fitted = true;
    const middle = (box.top + box.bottom) / 2 * ky;
    const top = isRow ? box.top * ky - Math.max(0, (h - above) / 2) : middle - h / 2;
    view = { kx, ky, x: (box.left + box.right) / 2 * kx - across / 2, y: top - above };
    if (kind === "path" && isTall) view.x = box.left * kx - Math.max(36, (across - COLUMN_TEXT - 40) / 2);
    paint();
  }

  function zoom(times, point = [wide() / 2, high() / 2], atOnce = true) {
    const t = within(near() * times, FURTHEST, NEAREST) / near(), [x, y] = point;
    view = { kx: view.kx * t, ky: view.ky * t, x: (view.x + x) * t - x, y: (view.y + y) * t - y };
    fitted = false;
    paint(atOnce);
  }

  function move(right, down) {
    view.x += right;
    view.y += down;
    fitted = false;
    pan();
  }

  function reveal(dot) {
    const [x, y] = at(dot), [across, down] = free(true);
    if (x < view.x + 20 || x > view.x + across - 20 || y < view.y + 20 || y > view.y + down - 20) {
      move(x - across / 2 - view.x, y - down / 2 - view.y);
    }
  }

  // The mini-map. It appears when a part of the picture is outside of the window; its button shows or hides it always.
  const MAP = { wide: 150, high: 100, key: "kgd-graph-map" };
  function isInWindow() {
    const { left, right, top, bottom } = box;
    return left * view.kx >= view.x - 1 && right * view.kx <= view.x + wide() + 1 && top * view.ky >= view.y - 1 && bottom * view.ky <= view.y + high() + 1;
  }
  const centre = () => [(box.left + box.right) / 2 * view.kx, (box.top + box.bottom) / 2 * view.ky];
  function show() {
    const map = by("map");
    const [isWhole, wanted] = [isInWindow(), localStorage.getItem(MAP.key)];
    map.toggleAttribute("hidden", wanted ? wanted === "no" : isWhole);
    document.querySelector("[data-map]").ariaPressed = String(!map.hasAttribute("hidden"));
    const w = (box.right - box.left) * view.kx || 1, h = (box.bottom - box.top) * view.ky || 1, k = Math.min(MAP.wide / w, MAP.high / h) * 0.9;
    const [middleX, middleY] = centre();
    const x = (value) => (value - middleX) * k + MAP.wide / 2, y = (value) => (value - middleY) * k + MAP.high / 2;
    map.k = k;
    if (!map.querySelector(".seen")) map.append(made("rect", "seen"));
    // A group has its outline, a node a spot.
    map.outline = (dot) => {
      const [right, down] = at(dot), [w, h] = half(dot).map((value) => value * k), n = (value) => value.toFixed(1);
      if (!dot.group) return `M${n(x(right))} ${n(y(down))}h.01`;
      if (dot.open) return `M${n(x(right) - w)} ${n(y(down) - h)}h${n(2 * w)}v${n(2 * h)}h${n(-2 * w)}z`;
      const arc = (across) => `a${n(w)} ${n(w)} 0 1 0 ${n(across)} 0`;
      return `M${n(x(right) - w)} ${n(y(down))}${arc(2 * w)}${arc(-2 * w)}`;
    };
    set(map.querySelector(".seen"), { x: x(view.x), y: y(view.y), width: wide() * k, height: high() * k });
  }
  function made(tag, name) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    element.classList.add(...name.split(" "));
    return element;
  }
  // One path for each colour.
  function spot() {
    const map = by("map"), paths = new Map();
    for (const dot of dots) paths.set(dot.hue, (paths.get(dot.hue) || "") + map.outline(dot));
    map.querySelectorAll(".spots").forEach((path) => path.remove());
    for (const [hue, d] of paths) {
      const path = made("path", hue === "bubble" ? "spots outlines" : "spots");
      path.setAttribute("stroke", `var(--${hue}, var(--quiet))`);
      path.setAttribute("d", d);
      map.prepend(path);
    }
  }
  function lookAt(event) {
    const map = by("map"), { x, y } = map.getBoundingClientRect(), [middleX, middleY] = centre();
    const to = (value, all, middle) => (value - all / 2) / map.k + middle;
    move(to(event.clientX - x, MAP.wide, middleX) - wide() / 2 - view.x, to(event.clientY - y, MAP.high, middleY) - high() / 2 - view.y);
  }

  const observed = new ResizeObserver(() => { if (svg?.isConnected && wide()) fitted ? all() : paint(); });
  function begin() {
    const graph = document.querySelector(".graph");
    if (graph) document.documentElement.style.setProperty("--top", `${Math.round(graph.getBoundingClientRect().top + scrollY)}px`);
    const drawing = document.querySelector("#picture svg.drawing#drawing");
    if (!drawing || drawing.dataset.painted) return;
    svg = drawing;
    document.documentElement.style.setProperty("--steps", svg.querySelectorAll(":scope > .dot").length);
    svg.dataset.painted = "yes";
    const before = seenAt;
    seenAt = read();
    observed.disconnect();
    observed.observe(svg);
    before === seenAt && !fitted ? paint() : all();
    if (by("card").querySelector("header") && getComputedStyle(by("card")).position === "fixed") svg.closest(".stage").scrollIntoView();
    const selected = by("card").firstElementChild && dots.find((dot) => dot.link.hasAttribute("aria-current"));
    if (selected) reveal(selected);
  }
  addEventListener("resize", begin);

  const dotOf = (link) => dots.find((dot) => dot.link === link);
  const modified = (event) => event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

  // The card.
  function select(to, dot) {
    for (const one of dots) one.link.toggleAttribute("aria-current", one === dot);
    if (dot) dot.link.setAttribute("aria-current", "true");
    history.replaceState(history.state, "", to);
    if (!dot) by("card").replaceChildren();
    name();
    if (!dot) return fitted ? all() : place();
    htmx.ajax("GET", `${to.pathname}/card${to.search}`, { target: "#card", swap: "innerHTML" }).then(() => {
      fitted ? all() : place();
      reveal(dot);
    }, () => {});
  }
  function go(to) {
    const focused = document.activeElement?.dataset?.uri;
    htmx.ajax("GET", to.pathname + to.search, { source: by("picture") }).then(() => {
      const again = focused && dots.find((dot) => dot.uri === focused), field = document.querySelector(".graph [autofocus]");
      field?.closest(".find").setAttribute("open", "");
      (again ? again.link : field)?.focus();
    }, () => {});  // an event reports the failure
  }
  function expand(dot) {
    const to = new URL(dot.link.href.baseVal, location), uri = to.searchParams.get("node");
    if (!uri || dot.isStart || dot.figure.matches(".missing, .unreachable")) return;
    for (const name of ["node", "group", "open", "to"]) to.searchParams.delete(name);
    to.searchParams.append("from", uri);
    go(to);
  }
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.addEventListener(name, (event) => {
    if (event.detail.elt.id === "picture") location.assign(event.detail.requestConfig.path);
    else if (event.detail.target?.id === "card") location.reload();
  });

  let clicked;  // the dot of a double click's first click; the picture may move before the second
  document.addEventListener("click", (event) => {
    if (event.detail < 2) clicked = dotOf(event.target.closest("#picture a.dot"));
    const button = event.target.closest("[data-zoom]");
    if (event.target.closest("[data-map]")) {
      localStorage.setItem(MAP.key, by("map").hasAttribute("hidden") ? "yes" : "no");
      return show();
    }
    if (button && svg) return button.dataset.zoom === "all" ? all() : zoom(button.dataset.zoom === "in" ? STEP : 1 / STEP);
    const link = event.target.closest("#picture a.dot, #rest a, #card a, .side a, .legend a"), line = target(event);
    if (kind === "groups" && line?.path && !modified(event)) {
      event.preventDefault();
      return line.arrow ? null : go(both(line));
    }
    if (!link || event.defaultPrevented || modified(event) || !by("picture")) return;
    const to = new URL(link.href.baseVal ?? link.href, location);
    if (to.pathname !== location.pathname) return;
    event.preventDefault();
    if (event.detail > 1 && clicked) return;
    const uri = to.searchParams.get("node"), dot = uri && dots.find((one) => one.uri === uri);
    if (dot || link.matches("[data-close]")) select(to, dot);
    else go(to);
  });
  // The address of the picture with both groups of a line opened. Groups of areas are open without their ids, unless
  // another group is opened.
  function both({ a, b }) {
    const to = new URL(location), before = to.searchParams.getAll("open"), others = (ids) => ids.filter((id) => !id.startsWith("molecule:"));
    const after = [...(others(before).length ? before : []), ...[a, b].map((dot) => dot.uri.replace("group:", ""))];
    to.searchParams.delete("open");
    for (const id of new Set(others(after).length ? after : [])) to.searchParams.append("open", id);
    return to;
  }
  document.addEventListener("dblclick", () => {
    if (clicked && !clicked.group) expand(clicked);
  });

  document.addEventListener("wheel", (event) => {
    if (!event.target.closest("#drawing")) return;
    event.preventDefault();
    zoom(Math.exp(-within(event.deltaY, -120, 120) / 400), inPicture(event), false);
  }, { passive: false });

  const ARROWS = { ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80] };
  document.addEventListener("keydown", (event) => {
    if (!svg || !event.target.closest("#picture, #card") || event.ctrlKey || event.metaKey || event.altKey) return;
    const dot = dotOf(event.target.closest("#picture a.dot")), close = document.querySelector("#card [data-close]");
    if (event.key === "Escape" && close) close.click();
    else if (!event.target.closest("#picture")) return;
    else if (event.key === "+" || event.key === "=") zoom(STEP);
    else if (event.key === "-") zoom(1 / STEP);
    else if (event.key === "0") all();
    else if (event.key === "e" && dot && !dot.group) expand(dot);
    else if (ARROWS[event.key]) move(...ARROWS[event.key]);
    else return;
    event.preventDefault();
  }, true);  // before the keys of every page

  document.addEventListener("focusin", (event) => {
    const dot = dotOf(event.target.closest("#picture a.dot"));
    if (!dot) return;
    by("picture").querySelector(".canvas").scrollTo(0, 0);
    if (event.target.matches(":focus-visible")) reveal(dot);
    name(dot);
  });

  // Dragging: one pointer moves a node or the picture, two zoom.
  const pointers = new Map();
  let held = null, wasDragged = false;
  document.addEventListener("pointerdown", (event) => {
    const onMap = event.target.closest("#map");
    if (!pointers.size) wasDragged = false;  // no click follows a gesture of two fingers
    if (!svg || event.button || !(onMap || event.target.closest("#drawing"))) return;
    pointers.set(event.pointerId, event);
    held = { dot: dotOf(event.target.closest("a.dot:not(.open)")), onMap, x: event.clientX, y: event.clientY };
    if (onMap) lookAt(event);
  });
  document.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return point(event);
    if (event.pointerType === "mouse" && !event.buttons) return release(event);
    const before = pointers.get(event.pointerId), others = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
    if (!wasDragged && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4) return;
    wasDragged = true;
    pointers.set(event.pointerId, event);
    const right = (event.clientX - before.clientX) / scale, down = (event.clientY - before.clientY) / scale;
    if (held.onMap) lookAt(event);
    else if (others.length) {
      const apart = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY) || 1;
      const [[x, y], [otherX, otherY]] = [event, others[0]].map(inPicture);
      zoom(apart(event) / apart(before), [(x + otherX) / 2, (y + otherY) / 2], false);
      move(-right / 2, -down / 2);
    } else if (held.dot) shift(held.dot, right / view.kx, down / view.ky);
    else move(-right, -down);
  });
  function shift(dot, right, down) {
    dot.x += right;
    dot.y += down;
    fitted = false;  // a refresh keeps what was dragged in its place
    moved.set(dot.uri, { x: dot.x, y: dot.y });
    const [x, y] = at(dot);
    dot.link.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    for (const line of lines) if (line.a === dot || line.b === dot) stretch(line);
    pin(dot);
  }
  function release(event) {
    if (pointers.delete(event.pointerId) && wasDragged && held?.dot) {
      place();
      spot();
    }
  }
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, release);
  document.addEventListener("dragstart", (event) => { if (event.target.closest("#picture")) event.preventDefault(); });
  // A drag that ends over a node is not a click.
  document.addEventListener("click", (event) => {
    if (wasDragged && event.target.closest("#picture")) { event.preventDefault(); event.stopPropagation(); }
    wasDragged = false;
  }, true);

  // The nodes of the type in the legend under the pointer.
  let typed;
  document.addEventListener("pointerover", (event) => {
    const item = event.target.closest?.(".legend li"), type = item?.querySelector("svg > [data-type]:only-child")?.dataset.type;
    if (type === typed) return;
    typed = type;
    svg?.querySelectorAll("[data-type]").forEach((shape) => shape.classList.toggle("faint", Boolean(type) && shape.dataset.type !== type));
  });

  // The relations of the node, or the line, under the pointer.
  let pointed = null;
  function point(event) {
    if (!svg || event.pointerType === "touch") return;
    const on = target(event);
    if (on === pointed || (!on && !pointed)) return;
    pointed = on;
    svg.classList.toggle("on-line", Boolean(on?.path && kind === "groups" && !on.arrow));
    name(on || undefined);
  }
  // A line may cross a box; a box with nodes hides the lines between groups.
  function target(event) {
    if (!svg || !event.target.closest?.("#drawing")) return null;
    const dot = dotOf(event.target.closest("a.dot"));
    if (dot && (!dot.open || event.target.closest(".label"))) return dot;
    return lineAt(event, (line) => line.arrow || !dot?.link.matches(".filled")) || dot;
  }
  function lineAt(event, isShown) {
    const [left, top] = inPicture(event), x = left + view.x, y = top + view.y;
    let best = null, least = 6;
    for (const line of lines.filter(isShown)) {
      for (let n = 0, steps = kind === "groups" || line.bend ? 8 : 1; n < steps; n++) {
        const [ax, ay] = along(line, n / steps), [bx, by] = along(line, (n + 1) / steps), dx = bx - ax, dy = by - ay;
        const t = within(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1), 0, 1), away = Math.hypot(x - ax - t * dx, y - ay - t * dy);
        if (away < least) [best, least] = [line, away];
      }
    }
    return best;
  }

  document.documentElement.classList.add("scripted");
  document.addEventListener("kgd:shown", begin);
  begin();
})();
