// One conflict: what was there before, each side, what readers see, why, and the ways to decide.

import { explain, get } from "./api.js";
import { asTable, button, choice, commandLine, dialog, field, h, notice, s, say, table } from "./dom.js";
import { askAuthor, author, choosing, closedOf, resolve, resolveCommand, tellDecision, undo, undoCommand } from "./decide.js";
import { stateMark, subject } from "./conflicts.js";
import { blameTable, neighbours } from "./blame.js";
import { labelsOf, loadModel } from "./schema.js";
import { authorText, brief, conflictPlace, count, dotText, isolated, listed, millis, nodeMark, objectLink, objectOf, objectPlace, shortID, timeText, titleText, whole } from "./values.js";

const numbers = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const words = (number) => numbers[number] ?? String(number);

/** The view of one conflict. */
export async function conflictPage(view, id) {
  const schema = await loadModel();
  let conflict = null;
  let isDirty = false;
  let note = "";

  async function read() {
    try {
      conflict = await get(`/v1/conflicts/${encodeURIComponent(id)}`, {}, { signal: view.signal });
    } catch (error) {
      if (error.code !== "conflictNotFound") throw error;
      const closed = await closedOf(id, view.status.cluster, view.signal);
      if (!closed) throw error;
      conflict = await get(`/v1/conflicts/${encodeURIComponent(closed.id)}`, {}, { signal: view.signal });
    }
    if (conflict.id !== id) {
      id = conflict.id;
      view.path = `conflicts/${encodeURIComponent(id)}`;
      view.setQuery({});
    }
  }

  async function load() {
    await read();
    const uris = [conflict.object, ...conflict.sides.flatMap((side) => (typeof side.value === "string" ? [side.value] : [side.value?.object])), conflict.base?.value];
    const labels = await labelsOf(uris.filter((uri) => objectOf(uri)), view.signal);
    let object = null;
    try {
      const place = objectOf(conflict.object);
      object = place && await get(`/v1/objects/${encodeURIComponent(place.entity)}/${place.id}`, {}, { signal: view.signal });
    } catch (error) {
      if (error.code !== "objectNotFound") throw error;
    }
    draw(labels, object);
  }

  const typeOf = (property) => schema.type(conflict.entity, property);

  function draw(labels, object) {
    isDirty = false;
    const { id: number } = objectOf(conflict.object) ?? { id: conflict.id };
    const name = labels.get(conflict.object) ?? shortID(number);
    const isOpen = conflict.state !== "resolved" && conflict.open;
    view.keys = {};
    if (isOpen) conflict.sides.slice(0, 9).forEach((side, index) => { view.keys[String(index + 1)] = () => keep(side, index); });
    if (conflict.state !== "unresolved") view.keys.u = takeBack;
    view.page(`${subject(conflict)} of ${titleText(name)}`, [subject(conflict), " of ", isolated(name)],
      h("p.path", null, h("a", { href: "#/conflicts" }, "Conflicts"), " › ", h("span", null, conflict.entity), " › ", objectLink(conflict.object, labels)),
      h("p.lead", null, stateMark(conflict.state), " ", summary(object)),
      decisionBox(),
      h("section", { "aria-labelledby": "story" }, h("h2", { id: "story" }, "What happened"), h("div.story", null, fork(), story(labels))),
      h("section", { "aria-labelledby": "sides" }, h("h2", { id: "sides" }, isOpen ? "Choose what stays" : "The values"),
        isOpen && noteField(),
        h("div.cards", null, conflict.base && baseCard(labels), conflict.sides.map((side, index) => sideCard(side, index, isOpen, labels))),
        conflict.kind === "count" && h("p", null, "This conflict has no sides. Change the object until it is right: ", objectLink(conflict.object, labels))),
      isOpen && otherWays(object, labels),
      resultBox(object, labels),
      objectBox(object, labels),
      h("section", null, h("h2", null, "In detail"), details()));
  }

  function summary(object) {
    const sides = conflict.sides.length;
    if (conflict.state === "resolved") return conflict.decision ? ["Somebody decided. It can be undone."] : ["A later save replaced all sides."];
    const shown = conflict.sides.find((side) => side.visible);
    const apart = conflict.kind === "uniqueness" ? `${words(sides)} objects got the same key` : `${words(sides)} ${conflict.kind === "delete" ? "saves" : "values"} were written`;
    const told = sides > 1 ? `${apart[0].toUpperCase()}${apart.slice(1)} at nodes that had not heard of each other. ` : "";
    if (conflict.state === "settled") return [told, "A policy chose, so nobody has to act. You may still choose otherwise."];
    return [told, shown && object ? ["Until somebody decides, readers see the value of ", authorText(shown.author), "."] : "Nobody has decided yet."];
  }

  // Who decided and what, or by which policy.
  function decisionBox() {
    if (conflict.state === "unresolved") return null;
    const made = conflict.decision;
    const undoing = [button("Undo this decision", takeBack, { class: "primary", "data-key": "undo", "aria-keyshortcuts": "u" }),
      h("details", null, h("summary", null, "As a command"), commandLine(undoCommand(conflict)))];
    if (!made) return h("section.decision", { "aria-label": "Decision" }, h("p", null, conflict.reason?.text ?? "A policy decided."), undoing);
    return h("section.decision", { "aria-label": "Decision" },
      h("p", null, "Decided by ", h("strong", null, authorText(made.author)), " at ", nodeMark(made.by), " ", timeText(millis(made.timestamp)), "."),
      made.note && h("p", null, "Note: ", h("q", null, made.note)), undoing);
  }

  function noteField() {
    return field("Note, kept with the decision (optional)", { value: note, maxlength: "1000", "data-key": "note", id: "note", on: { input: (event) => { note = event.target.value; } } });
  }

  // The fork as a picture: one line that parts, and joins if somebody decided.
  function fork() {
    const sides = conflict.sides.slice(0, 6);
    if (sides.length < 2) return null;
    const height = sides.length * 34 + 16;
    const middle = height / 2;
    const isJoined = conflict.state === "resolved";
    return s("svg.fork", { viewBox: `0 0 150 ${height}`, width: 150, height, role: "img", "aria-label": `One value became ${words(sides.length)}${isJoined ? ", and one again" : ""}.` },
      sides.map((side, index) => {
        const y = 25 + index * 34;
        return [s("path.line", { "data-color": side.node % 6, d: `M18 ${middle} C45 ${middle} 45 ${y} 72 ${y}${isJoined ? ` C105 ${y} 105 ${middle} 132 ${middle}` : " H125"}`, "stroke-dasharray": isJoined && !side.visible ? "4 4" : null }),
          s("circle.dot", { "data-color": side.node % 6, cx: 72, cy: y, r: 10 }), s("text.in", { x: 72, y: y + 4 }, String(index + 1))];
      }),
      s("circle.base", { cx: 18, cy: middle, r: 7 }), isJoined && s("circle.base", { cx: 132, cy: middle, r: 7 }));
  }

  function story(labels) {
    const what = (side) => {
      if (side.deleted) return "deleted the object";
      if (conflict.kind === "uniqueness") return ["saved ", objectLink(side.value?.object, labels), " with the same key"];
      if (conflict.kind === "delete" || conflict.kind === "row") return "changed the object";
      if (conflict.kind === "link") return ["wrote ", brief(side.value, "link", labels)];
      return ["wrote ", h("strong", null, brief(side.value, typeOf(conflict.property), labels))];
    };
    const sorted = conflict.sides.map((side, index) => [side, index]).sort(([one], [two]) => millis(one.timestamp) - millis(two.timestamp));
    return h("ol.events", null,
      conflict.base && h("li", null, "Before, it was ", h("strong", null, brief(conflict.base.value, typeOf(conflict.property), labels)), "."),
      sorted.map(([side, index], place) => h("li", null, h("span.number", null, index + 1), timeText(millis(side.timestamp)), ", ", nodeMark(side.node), ": ", authorText(side.author), " ", what(side),
        side.context && [" (", isolated(side.context), ")"], ".", place > 0 && h("span.quiet", null, ` This node had not heard of ${place > 1 ? "the saves" : "the save"} above.`))),
      conflict.decision && h("li", null, timeText(millis(conflict.decision.timestamp)), ", ", nodeMark(conflict.decision.by), ": ", authorText(conflict.decision.author), " decided", conflict.decision.note && [": ", h("q", null, conflict.decision.note)], "."));
  }

  function baseCard(labels) {
    return h("article.card.base", { "aria-label": "Before" }, h("h3", null, "Before"), h("p.meta", null, "What all had seen ", dotText(conflict.base.dot)), h("div.body", null, whole(conflict.base.value, typeOf(conflict.property), null, labels)));
  }

  function sideCard(side, index, isOpen, labels) {
    const isShown = side.visible && conflict.open;
    const how = sideChoice(side, index);
    return h(`article.card${side.visible ? ".shown" : ""}`, { "data-color": side.node % 6, "aria-label": `Side ${index + 1}` },
      h("h3", null, h("span.number", null, index + 1), authorText(side.author), " ", nodeMark(side.node), side.visible && h("span.tag", null, isShown ? "shown now" : "was shown")),
      h("p.meta", null, timeText(millis(side.timestamp)), side.context && [" · ", isolated(side.context)], " · ", dotText(side.dot)),
      h("div.body", null, sideBody(side, labels)),
      isOpen && h("div.foot", null, button([keepText(side), " ", h("kbd", { "aria-hidden": "true" }, index + 1)], () => keep(side, index), { class: "primary keep", "data-key": `keep ${index + 1}`, "aria-keyshortcuts": String(index + 1), "aria-label": `${keepText(side)}: side ${index + 1}` }),
        h("details", null, h("summary", null, "As a command"), commandLine(resolveCommand(conflict, how)))));
  }

  function keepText(side) {
    if (side.deleted) return "Delete the object";
    if (conflict.kind === "delete") return "Keep the object";
    return conflict.kind === "uniqueness" ? "Keep this object" : "Keep this side";
  }

  function sideChoice(side, index) {
    const isShared = conflict.sides.filter((one) => one.dot === side.dot).length > 1;
    const how = { side: side.dot, number: index + 1 };
    const object = side.object ?? side.value?.object;
    return isShared && object ? { ...how, object } : how;
  }

  function sideBody(side, labels) {
    if (side.deleted) return h("p", null, "Deletes the object.");
    if (side.relationships) return h("pre.value", null, JSON.stringify(side.relationships, null, 2));
    const values = conflict.kind === "uniqueness" ? side.value?.values : side.value;
    if (values && typeof values === "object" && !Array.isArray(values)) return rowBody(side, values, labels);
    const first = conflict.sides[0];
    const other = conflict.base ? { value: conflict.base.value } : side !== first ? { value: first.value } : null;
    return [whole(side.value, typeOf(conflict.property), other, labels), side.object && h("p.quiet", null, "written to ", objectLink(side.object, labels))];
  }

  // A whole row: what differs between the sides first, the rest folded.
  function rowBody(side, values, labels) {
    const rows = conflict.sides.map((one) => (conflict.kind === "uniqueness" ? one.value?.values : one.value)).filter((one) => one && typeof one === "object");
    const base = conflict.base?.value && typeof conflict.base.value === "object" ? conflict.base.value : null;
    const text = (value) => JSON.stringify(value, (key, one) => (typeof one === "bigint" ? String(one) : one));
    const differs = (key) => [...rows, base].some((row) => row && text(row[key]) !== text(values[key])) || (side.writes?.[key] && side.writes[key].dot === side.dot);
    const line = (key) => h("div", null, h("dt", null, key), h("dd", null, whole(values[key], typeOf(key), base ? { value: base[key] } : null, labels)));
    const [some, rest] = [Object.keys(values).filter(differs), Object.keys(values).filter((key) => !differs(key))];
    return [conflict.kind === "uniqueness" && h("p", null, objectLink(side.value.object, labels)), h("dl.row", null, some.map(line)),
      rest.length > 0 && h("details", null, h("summary", null, count(rest.length, "more property", "more properties")), h("dl.row", null, rest.map(line)))];
  }

  async function decide(how, text, from) {
    if (!(await askAuthor())) return;
    document.querySelectorAll("#main .card button").forEach((one) => { one.disabled = true; });
    try {
      const shown = conflict;
      const { isNoteLost } = await resolve(conflict, how, note.trim());
      note = "";
      isDirty = false;
      await load();
      tellDecision(text, shown, isNoteLost, view.status.cluster);
      document.getElementById("heading")?.focus();
    } catch (error) {
      notice("bad", explain(error));
      if (["sidesChanged", "conflictNotFound", "alreadyResolved"].includes(error.code)) await load().catch(() => {});
      else document.querySelectorAll("#main button:disabled").forEach((one) => { one.disabled = false; });
      from?.focus?.();
    }
  }

  function keep(side, index) {
    return decide(sideChoice(side, index), `Decided: ${side.deleted ? "the object is deleted" : `side ${index + 1} stays`}.`, document.activeElement);
  }

  async function takeBack() {
    if (conflict.state === "unresolved" || !(await askAuthor())) return;
    try {
      const { isNoteLost } = await undo(conflict, note.trim());
      await load();
      notice("good", "Undone. Readers see again what the decision had replaced.", isNoteLost && h("p", null, "This node stores no notes yet, so your note was not kept."));
    } catch (error) {
      notice("bad", explain(error));
      if (["sidesChanged", "conflictNotFound"].includes(error.code)) await load().catch(() => {});
    }
  }

  function otherWays(object, labels) {
    const ways = [ownValues(object), policyWay(), changeKeys(labels), deleteWay(object)].filter(Boolean);
    return ways.length > 0 && h("section", { "aria-labelledby": "ways" }, h("h2", { id: "ways" }, "Or decide otherwise"), h("div.ways", null, ways));
  }

  const dirty = { on: { input: () => { isDirty = true; } } };

  // Fields for other values than the sides have: of the disputed property, or of those that differ in a row.
  function ownValues(object) {
    if (["delete", "link", "count", "save"].includes(conflict.kind) || (conflict.kind === "uniqueness" && !object)) return null;
    const shown = conflict.sides.find((side) => side.visible) ?? conflict.sides[0];
    let names = conflict.property ? [conflict.property] : [];
    if (conflict.kind === "row") names = schema.attributes(conflict.entity).map((one) => one.name).filter((name) => new Set(conflict.sides.map((side) => JSON.stringify(String(side.value?.[name])))).size > 1);
    if (conflict.kind === "uniqueness") names = conflict.id.replace(/@\d+$/, "").split(".unique.")[1]?.split(/[+,.]/) ?? [];
    names = names.filter((name) => schema.type(conflict.entity, name) !== "binary" && (schema.attributes(conflict.entity).some((one) => one.name === name) || schema.relationships(conflict.entity).some((one) => one.name === name && !one.toMany)));
    if (!names.length) return null;
    const valueOf = (name) => (conflict.property ? shown?.value : conflict.kind === "uniqueness" ? object?.values[name] : shown?.value?.[name]);
    const command = h("div");
    const showCommand = () => {
      try {
        command.replaceChildren(commandLine(resolveCommand(conflict, { values: readValues(form, names, typeOf) })));
      } catch {
        command.replaceChildren();
      }
    };
    const form = h("form.card", { "aria-label": "Another value", on: { input: () => { isDirty = true; showCommand(); }, submit: (event) => {
      event.preventDefault();
      try {
        const values = readValues(form, names, typeOf);
        decide({ values }, "Decided: your value stays.", event.submitter);
      } catch (error) {
        notice("bad", error.message);
      }
    } } }, h("h3", null, conflict.kind === "uniqueness" ? "Another key for the shown object" : "Write another value"),
    names.map((name) => valueField(name, typeOf(name), valueOf(name))),
    h("div.foot", null, h("button", { type: "submit", "data-key": "own" }, "Save this value"), h("details", null, h("summary", null, "As a command"), command)));
    showCommand();
    return form;
  }

  function policyWay() {
    if (["count", "save"].includes(conflict.kind)) return null;
    const command = h("div");
    const select = choice("Take", choosing, choosing[1][0], () => showCommand(), { "data-key": "choose" });
    const chosen = () => select.querySelector("select").value;
    const showCommand = () => command.replaceChildren(commandLine(resolveCommand(conflict, { policy: chosen() })));
    showCommand();
    return h("div.card", null, h("h3", null, "Let a policy choose"), select,
      h("div.foot", null, button("Decide by policy", (event) => decide({ policy: chosen() }, "Decided by policy.", event.target)), h("details", null, h("summary", null, "As a command"), command)));
  }

  // Of a unique key each object may get another one.
  function changeKeys(labels) {
    if (conflict.kind !== "uniqueness") return null;
    const keys = conflict.id.replace(/@\d+$/, "").split(".unique.")[1]?.split(/[+,.]/) ?? [];
    const objects = [...new Set(conflict.sides.map((side) => side.value?.object).filter(Boolean))];
    if (!keys.length || !objects.length) return null;
    const form = h("form.card", { "aria-label": "Keep all objects", on: { ...dirty.on, submit: (event) => {
      event.preventDefault();
      const change = {};
      try {
        for (const part of form.querySelectorAll("fieldset")) {
          const side = conflict.sides.find((one) => one.value?.object === part.getAttribute("data-object"));
          const values = readValues(part, keys, typeOf);
          if (keys.some((key) => values[key] !== side.value.values[key])) change[side.value.object] = values;
        }
      } catch (error) {
        notice("bad", error.message);
        return;
      }
      if (Object.keys(change).length) decide({ change }, "Decided: all objects stay, with keys of their own.", event.submitter);
      else notice("note", "Change the key of at least one object.");
    } } }, h("h3", null, "Keep all objects, with other keys"),
    objects.map((uri) => h("fieldset", { "data-object": uri }, h("legend", null, objectLink(uri, labels)), keys.map((key) => valueField(key, typeOf(key), conflict.sides.find((side) => side.value?.object === uri).value.values?.[key])))),
    h("div.foot", null, h("button", { type: "submit" }, "Save these keys")));
    return form;
  }

  function deleteWay(object) {
    if (!object || ["delete", "count", "link"].includes(conflict.kind)) return null;
    return h("div.card", null, h("h3", null, "Delete the object"), h("p", null, "The whole object goes, with everything that it holds."),
      h("div.foot", null, button("Delete the object…", async () => {
        if (await dialog("Delete the object?", [h("p", null, "The whole object goes at every node. You can undo it.")], "Delete it")) decide({ delete: true }, "Decided: the object is deleted.");
      }, { class: "danger" }), h("details", null, h("summary", null, "As a command"), commandLine(resolveCommand(conflict, { delete: true })))));
  }

  function resultBox(object, labels) {
    const property = conflict.property;
    const toMany = schema.relationships(conflict.entity).some((one) => one.name === property && one.toMany);
    return h("section.result", { "aria-labelledby": "result" }, h("h2", { id: "result" }, "What readers see now"),
      !object ? h("p", null, "The object is deleted.") : property && property in object.values && !toMany ? h("div.card", null, whole(object.values[property], typeOf(property), null, labels)) : h("p", null, "The object exists: ", objectLink(object.id, labels), "."),
      h("p", null, h("strong", null, "Why: "), conflict.reason?.text ?? "No reason is known."),
      conflict.violation && h("p.bad-text", null, `The shown object breaks a rule of the model: ${conflict.violation}.`));
  }

  function objectBox(object, labels) {
    if (!object) return null;
    return h("section", { "aria-labelledby": "object" }, h("h2", { id: "object" }, "The object ", objectLink(object.id, labels)),
      blameTable(view, schema, object, conflict.property), neighbours(view, schema, object));
  }

  function details() {
    const rows = [["ID", h("code", null, conflict.id)], ["Kind", conflict.kind], ["Policy", conflict.policy], ["Object", h("code", null, conflict.object)],
      ["Sides", h("span", null, conflict.sides.map((side) => [dotText(side.dot), " "]))], ["Closed by", conflict.closedBy ? dotText(conflict.closedBy) : "nothing yet"]];
    return asTable("IDs and saves", table("The conflict in detail", ["What", "Value"], rows));
  }

  await load();
  view.onChange(async (batch) => {
    const objects = new Set([conflict.object, ...conflict.sides.map((side) => side.object ?? side.value?.object)]);
    if (batch.length && !batch.some((one) => one.changes.some((change) => objects.has(change.object)))) return;
    const before = JSON.stringify([conflict.id, conflict.sides.map((side) => side.dot)]);
    if (isDirty) {
      const fresh = await get(`/v1/conflicts/${encodeURIComponent(id)}`, {}, { signal: view.signal }).catch(() => null);
      if (fresh && JSON.stringify([fresh.id, fresh.sides.map((side) => side.dot)]) === before) return;
      notice("note", "This conflict has changed at some node while you typed.", button("Show it as it is now", load, { class: "small" }));
      return;
    }
    await load();
    if (JSON.stringify([conflict.id, conflict.sides.map((side) => side.dot)]) !== before) say(conflict.open ? "Another value came. The page shows it." : "This conflict was decided.");
  });
}

function valueField(name, type, value) {
  const text = value === null || value === undefined ? "" : String(value);
  const isNull = h("label.field.inline", null, h("input", { type: "checkbox", name: `null ${name}`, checked: value === null, "aria-label": `${name}: no value` }), h("span", null, "no value"));
  const properties = { name: `value ${name}`, "data-key": `value ${name}`, value: text };
  if (type === "boolean") return h("div", null, choice(name, [["true", "true"], ["false", "false"]], text || "false", () => {}, properties), isNull);
  const isLong = type === "string" && (text.length > 60 || text.includes("\n"));
  const input = isLong ? h("label.field", null, h("span", null, name), h("textarea", { ...properties, rows: "5" }))
    : field(name, { ...properties, inputmode: /^integer/.test(type) ? "numeric" : null, placeholder: { date: "2026-01-31T12:00:00.000Z", reference: "x-tributary://…" }[type] ?? null });
  input.addEventListener("input", () => { isNull.querySelector("input").checked = false; });
  return h("div", null, input, isNull);
}

// What a form's fields hold, as values of JSON.
function readValues(form, names, typeOf) {
  const values = {};
  for (const name of names) {
    const text = form.querySelector(`[name="${CSS.escape(`value ${name}`)}"]`).value;
    if (form.querySelector(`[name="${CSS.escape(`null ${name}`)}"]`).checked) values[name] = null;
    else values[name] = parseValue(name, typeOf(name), text);
  }
  return values;
}

function parseValue(name, type, text) {
  if (type === "boolean") return text === "true";
  if (/^integer/.test(type)) {
    if (!/^\s*-?\d+\s*$/.test(text)) throw new Error(`${name} expects an integer, got ${text || "nothing"}.`);
    const number = BigInt(text.trim());
    return Number.isSafeInteger(Number(number)) ? Number(number) : number;
  }
  if (type === "double" || type === "float") {
    if (["Infinity", "-Infinity", "NaN"].includes(text)) return text;
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw new Error(`${name} expects a number, got ${text || "nothing"}.`);
    return Number(text);
  }
  return text;
}
