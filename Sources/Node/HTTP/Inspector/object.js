// One object: its values with blame, what it is related to, its conflicts, its life.

import { cannotTell, explain, get } from "./api.js";
import { asTable, button, commandLine, field, h, replace, table } from "./dom.js";
import { blameTable, neighbours, undoSave } from "./blame.js";
import { stateMark, subject } from "./conflicts.js";
import { commandOf } from "./decide.js";
import { lanes } from "./lanes.js";
import { labelsOf, loadModel } from "./schema.js";
import { authorText, brief, conflictPlace, count, dotText, isolated, millis, nodeMark, nodeOf, objectOf, shortID, timeText, titleText } from "./values.js";

/** The view of one object. */
export async function objectPage(view, entity, id) {
  const schema = await loadModel();
  const uri = `x-tributary://${view.status.cluster}/${entity}/${id}`;
  const path = `/v1/objects/${encodeURIComponent(entity)}/${id}`;
  const at = view.query.get("at");

  async function load() {
    let object = null;
    let problem = null;
    try {
      object = await get(path, { at }, { signal: view.signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      problem = at && cannotTell(error) ? "This node can't read the past yet." : explain(error);
    }
    const labels = await labelsOf([uri], view.signal);
    const name = object?.values[schema.labelOf(object.entity)] || labels.get(uri) || shortID(id);
    view.page(`${entity} ${titleText(name)}`, isolated(name),
      h("p.path", null, h("a", { href: `#/data/${encodeURIComponent(entity)}` }, entity), " › ", h("code", null, id)),
      problem && h("p.bad-text", { role: "alert" }, problem),
      object && object.id !== uri && h("p", null, "Another object has the same unique key and is shown for this one: ", h("code", null, object.id)),
      object?.conflicted && h("p", null, h("span.state", { "data-state": "unresolved" }, "conflict"), " A decision is wanted. See below."),
      past(), object && (at ? oldValues(object) : [h("section", null, h("h2", null, "Values, and who wrote them"), blameTable(view, schema, object)), h("section.panel", null, neighbours(view, schema, object))]),
      h("section", null, h("h2", null, "Conflicts of this object"), conflicts()), h("section", null, h("h2", null, "Its life"), life()),
      h("section", null, h("details", null, h("summary", null, "Version, address, command"), object && h("p", null, "Version ", h("code", null, object.version)), h("p", null, "Address ", h("code", null, uri)),
        commandLine(commandOf("fetch", entity, "--where", `SELF == '${uri}'`)))));
  }

  function past() {
    const form = h("form.marked", { on: { submit: (event) => {
      event.preventDefault();
      const moment = form.elements.at.value.trim();
      location.hash = `#/object/${encodeURIComponent(entity)}/${id}${moment ? `?at=${encodeURIComponent(moment)}` : ""}`;
    } } }, field("As it was at (empty: now)", { name: "at", value: at ?? "", placeholder: "2026-01-31T12:00:00Z" }), h("button", { type: "submit" }, "Show"));
    return form;
  }

  function oldValues(object) {
    return h("section", null, h("h2", null, "Values at ", isolated(at)), table("Values", ["Property", "Value"], Object.entries(object.values).map(([name, value]) => [name, brief(value, schema.type(entity, name))])));
  }

  function later(work) {
    const place = h("div", null, h("p.quiet", null, "Reading…"));
    work(place).catch((error) => { if (error.name !== "AbortError") replace(place, h("p.bad-text", null, explain(error))); });
    return place;
  }

  const conflicts = () => later(async (place) => {
    const answer = await get("/v1/conflicts", { state: "all", object: uri, limit: 50 }, { signal: view.signal });
    if (!answer.conflicts.length) return replace(place, h("p.quiet", null, "None is known."));
    return replace(place, table("Conflicts of this object", ["What", "State", "Values", "Decided by"], answer.conflicts.map((one) => [
      h("a", { href: conflictPlace(one.id) }, subject(one)), stateMark(one.state),
      h("span", null, one.sides.slice(0, 4).map((side, index) => [index > 0 && " or ", side.deleted ? "a delete" : brief(side.value, schema.type(entity, one.property))])),
      one.decision ? [authorText(one.decision.author), one.decision.note && [" – ", h("q", null, one.decision.note)]] : h("span.quiet", null, one.state === "unresolved" ? "nobody yet" : "a policy")])));
  });

  const life = () => later(async (place) => {
    let entries;
    let told = null;
    try {
      const answer = await get(`${path}/log`, { limit: 200 }, { signal: view.signal });
      entries = answer.entries;
      if (!answer.complete) told = "Older history was purged.";
    } catch (error) {
      if (!cannotTell(error)) throw error;
      told = "This node can't tell an object's log. These are the saves in its history that changed it.";
      entries = fromHistory(await get("/v1/history", { where: `ANY changes.uri == '${uri}'`, limit: 200 }, { signal: view.signal }));
    }
    if (!entries.length) return replace(place, h("p.quiet", null, "History has no save of it."));
    const labels = await labelsOf(entries.flatMap((one) => Object.values(one.values ?? {})).filter((one) => objectOf(one)), view.signal);
    const rows = [...entries].reverse().map((one) => [
      [timeText(millis(one.timestamp)), " ", nodeMark(one.node)], [authorText(one.author), one.context && h("div.quiet", null, isolated(one.context)), one.note && h("div", null, h("q", null, one.note))],
      [h("strong", null, { insert: "made", update: "changed", delete: "deleted" }[one.kind] ?? one.kind), h("ul.plain", null, Object.entries(one.values ?? {}).map(([name, value]) => h("li", null, name, ": ", brief(value, schema.type(entity, name), labels))), links(one))],
      [dotText(one.dot), " ", button("Undo this save…", () => undoSave(one.dot), { class: "small" })]]);
    return replace(place, told && h("p.quiet", null, told), h("div.picture", { tabindex: "0", role: "group", "aria-label": "The object's life as a picture" }, lanes(entries, { name: "The object's life" })),
      asTable(`${count(entries.length, "save")}, newest first`, table("The saves of this object", ["When", "Who", "What", "Save"], rows)));
  });

  const links = (one) => ["add", "remove"].flatMap((key) => Object.entries(one[key] ?? {}).map(([name, uris]) => h("li", null, `${name}: ${key === "add" ? "linked" : "unlinked"} ${count([uris].flat().length, "object")}`)));

  function fromHistory(answer) {
    const found = answer.transactions.map((one) => ({ ...one, node: nodeOf(one.dot), ...one.changes.find((change) => change.object === uri) }));
    return withOrder(found);
  }

  await load();
  view.onChange(async (batch) => {
    if (!at && (!batch.length || batch.some((one) => one.changes.some((change) => change.object === uri)))) await load();
  });
}

/** Adds to saves which of the others each directly follows, from what their writers had seen. */
export function withOrder(saves) {
  const split = (dot) => {
    const at = dot.lastIndexOf("-");
    return [dot.slice(0, at), Number(dot.slice(at + 1))];
  };
  const known = saves.map((one) => split(one.dot));
  const sees = (later, earlier) => {
    const [actor, sequence] = known[earlier];
    return known[later][0] === actor ? known[later][1] > sequence : Number(saves[later].seen?.[actor] ?? 0) >= sequence;
  };
  const lastOf = new Map();
  return saves.map((save, index) => {
    // The last save of each actor that this one had seen; of those, the ones that no other of them had seen.
    const candidates = [];
    for (const list of lastOf.values()) {
      for (let at = list.length - 1; at >= 0; at -= 1) {
        if (sees(index, list[at])) {
          candidates.push(list[at]);
          break;
        }
      }
    }
    const own = known[index][0];
    const after = candidates.filter((one) => known[one][0] === own || !candidates.some((other) => other !== one && sees(other, one))).map((one) => saves[one].dot);
    const apart = saves.some((other, at) => at !== index && other.node !== save.node && (at < index ? !sees(index, at) : !sees(at, index)));
    if (!lastOf.has(own)) lastOf.set(own, []);
    lastOf.get(own).push(index);
    return { ...save, after, apart };
  });
}
