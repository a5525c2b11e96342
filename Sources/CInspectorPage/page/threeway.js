// One conflict: what was there before, each side, what readers see, why, and the ways to decide.

import { conflictPath, encode, objectPath } from "./api.js";
import { blameTable, byText, neighbours } from "./blame.js";
import { about, stateMark } from "./conflicts.js";
import { askAuthor, choosing, closedOf, resolve, resolveCommand, tellDecision, undo, undoCommand } from "./decide.js";
import { asCommand, asTable, button, choice, commandLine, dialog, field, h, notice, part, replace, s, say, table } from "./dom.js";
import { labelsOf, loadModel } from "./schema.js";
import { authorText, brief, count, dotText, isolated, millis, nodeMark, objectLink, objectOf, shortID, timeText, whole } from "./values.js";

/** The view of one conflict. */
export async function conflictPage(view, id) {
	const schema = await loadModel();
	let conflict = null;
	let isDirty = false;
	let note = "";

	async function read() {
		try {
			conflict = await view.get(conflictPath(id));
		} catch (error) {
			if (error.code !== "conflictNotFound") throw error;
			const closed = await closedOf(id, view.status.cluster, view.signal);
			if (!closed) throw error;
			conflict = await view.get(conflictPath(closed.id));
		}
		if (conflict.id !== id) {
			id = conflict.id;
			view.path = `conflicts/${encodeURIComponent(id)}`;
			view.setQuery({});
		}
	}

	async function load() {
		await read();
		const known = await labelsOf([conflict.object, conflict.base?.value, conflict.sides.map((side) => side.value?.object ?? side.value)], view.signal);
		// An object that another one is shown for cannot be fetched, but its side has its values.
		const labels = { get: (uri) => known.get(uri) || conflict.sides.find((side) => side.value?.object === uri)?.value.values?.[schema.labelOf(conflict.entity)] };
		let object = null;
		try {
			const place = objectOf(conflict.object);
			object = place && await view.get(objectPath(place));
		} catch (error) {
			if (error.code !== "objectNotFound") throw error;
		}
		draw(labels, object);
	}

	const typeOf = (property) => schema.type(conflict.entity, property);

	function draw(labels, object) {
		isDirty = false;
		const name = labels.get(conflict.object) ?? shortID(objectOf(conflict.object)?.id ?? conflict.id);
		const isOpen = conflict.state !== "resolved" && conflict.open;
		view.keys = {};
		if (isOpen) conflict.sides.slice(0, 9).forEach((side, index) => { view.keys[String(index + 1)] = () => keep(side, index); });
		if (conflict.state !== "unresolved") view.keys.u = takeBack;
		view.page(about(conflict, name),
			h("p.path", h("a", { href: "#/conflicts" }, "Conflicts"), " › ", conflict.entity, " › ", objectLink(conflict.object, labels)),
			h("p.lead", stateMark(conflict.state), " ", summary(object)),
			decisionBox(),
			part("What happened", h("div.story", fork(), story(labels))),
			part(isOpen ? "Choose what stays" : "The values",
				isOpen && noteField(),
				h("div.cards", conflict.base && baseCard(labels), conflict.sides.map((side, index) => sideCard(side, index, isOpen, labels, object))),
				conflict.kind === "count" && h("p", "This conflict has no sides. Change the object until it is right: ", objectLink(conflict.object, labels))),
			isOpen && otherWays(object, labels),
			resultBox(object, labels),
			objectBox(object, labels),
			part("In detail", details()));
	}

	function summary(object) {
		const sides = conflict.sides.length;
		if (conflict.state === "resolved") return conflict.decision ? "Somebody decided. It can be undone." : "A later save replaced all sides.";
		const shown = conflict.sides.find((side) => side.visible);
		if (conflict.kind === "save") return "The object had changed since the save's writer read it, so the save's policy chose.";
		const apart = conflict.kind === "uniqueness" ? "objects got the same key" : conflict.kind === "delete" ? "saves were made" : "values were written";
		const told = sides > 1 ? `${sides} ${apart} at nodes that had not heard of each other. ` : "";
		if (conflict.state === "settled") return [told, "A policy chose, so nobody has to act. You may still choose otherwise."];
		return [told, shown && object ? ["Until somebody decides, readers see the value of ", authorText(shown.author), "."] : "Nobody has decided yet."];
	}

	// Who decided and what, or by which policy.
	function decisionBox() {
		if (conflict.state === "unresolved" || (conflict.open && conflict.kind === "uniqueness")) return null;
		const made = conflict.decision;
		return h("section.decision", { label: "Decision" }, h("p", made ? ["Decided by ", byText({ ...made, node: made.by, context: null })] : conflict.reason?.text ?? "A policy decided."),
			h("p.actions", button(made ? "Undo this decision" : "Undo the policy's choice", takeBack, { class: "primary", key: "undo", "aria-keyshortcuts": "u" })), asCommand(undoCommand(conflict)));
	}

	function noteField() {
		return field("Note, kept with the decision (optional)", { value: note, maxlength: "1000", key: "note", id: "note", on: { input: (event) => { note = event.target.value; } } });
	}

	// One line that parts, and joins if somebody decided.
	function fork() {
		const sides = conflict.sides.slice(0, 6);
		if (sides.length < 2) return null;
		const height = sides.length * 34 + 16;
		const middle = height / 2;
		const isJoined = conflict.state === "resolved";
		return s("svg.fork", { viewBox: `0 0 150 ${height}`, width: 150, height, role: "img", label: `One value became ${sides.length}${isJoined ? ", and one again" : ""}.` },
			sides.map((side, index) => {
				const y = 25 + index * 34;
				return [s("path.line", { node: side.node, d: `M18 ${middle} C45 ${middle} 45 ${y} 72 ${y}${isJoined ? ` C105 ${y} 105 ${middle} 132 ${middle}` : " H125"}` }),
					s("circle.dot", { node: side.node, cx: 72, cy: y, r: 10 }), s("text.in", { x: 72, y: y + 4 }, String(index + 1))];
			}),
			s("circle.base", { cx: 18, cy: middle, r: 7 }), isJoined && s("circle.base", { cx: 132, cy: middle, r: 7 }));
	}

	function story(labels) {
		const what = (side) => {
			if (side.deleted) return "deleted the object";
			if (conflict.kind === "uniqueness") return ["saved ", objectLink(side.value?.object, labels), " with the same key"];
			if (conflict.kind === "delete" || conflict.kind === "row") return "changed the object";
			if (conflict.kind === "link") return ["wrote ", brief(side.value, "link", labels)];
			return ["wrote ", h("strong", brief(side.value, typeOf(conflict.property), labels))];
		};
		const sorted = conflict.sides.map((side, index) => [side, index]).sort(([one], [two]) => millis(one.timestamp) - millis(two.timestamp));
		return h("ol.events",
			conflict.base && h("li", "Before, it was ", h("strong", brief(conflict.base.value, typeOf(conflict.property), labels))),
			sorted.map(([side, index], place) => h("li", h("span.number", index + 1), timeText(millis(side.timestamp)), ", ", nodeMark(side.node), ": ", authorText(side.author), " ", what(side),
				side.context && [" (", isolated(side.context), ")"], place > 0 && side.node && h("span.quiet", `. This node had not heard of ${place > 1 ? "the saves" : "the save"} above.`))),
			conflict.decision && h("li", "Decided: ", byText({ ...conflict.decision, node: conflict.decision.by })));
	}

	function baseCard(labels) {
		return h("article.card.base", h("h3", "Before"), h("p.meta", "What all had seen ", dotText(conflict.base.dot)),
			h("div.body", whole(conflict.base.value, typeOf(conflict.property), null, labels)));
	}

	function sideCard(side, index, isOpen, labels, object) {
		const isKept = conflict.property && encode(side.value) === encode(object?.values[conflict.property]);
		const tag = conflict.decision ? isKept && "shown now" : side.visible && (conflict.open ? "shown now" : "was shown");
		const how = sideChoice(side, index);
		return h("article.card", { node: side.node, label: `Side ${index + 1}` },
			h("h3", h("span.number", index + 1), authorText(side.author), " ", nodeMark(side.node), tag && h("span.tag", tag)),
			h("p.meta", timeText(millis(side.timestamp)), side.context && [" · ", isolated(side.context)], " · ", dotText(side.dot)),
			h("div.body", sideBody(side, labels)),
			isOpen && h("div.foot", button([keepText(side), " ", h("kbd", { "aria-hidden": "true" }, index + 1)], () => keep(side, index),
				{ class: "primary keep", key: `keep ${index + 1}`, "aria-keyshortcuts": String(index + 1), label: `${keepText(side)}: side ${index + 1}` }),
				asCommand(resolveCommand(conflict, how))));
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
		if (side.deleted) return h("p", "Deletes the object.");
		if (side.relationships) return h("pre", JSON.stringify(side.relationships, null, 2));
		const values = conflict.kind === "uniqueness" ? side.value?.values : side.value;
		if (values && typeof values === "object" && !Array.isArray(values)) return rowBody(side, values, labels);
		const first = conflict.sides[0];
		const other = conflict.base ? { value: conflict.base.value } : side !== first ? { value: first.value } : null;
		return [whole(side.value, typeOf(conflict.property), other, labels), side.object && h("p.quiet", "written to ", objectLink(side.object, labels))];
	}

	// A whole row: what differs between the sides first, the rest folded.
	function rowBody(side, values, labels) {
		const rows = conflict.sides.map((one) => (conflict.kind === "uniqueness" ? one.value?.values : one.value)).filter((one) => one && typeof one === "object");
		const base = conflict.base?.value && typeof conflict.base.value === "object" ? conflict.base.value : null;
		const differs = (key) => [...rows, base].some((row) => row && encode(row[key] ?? null) !== encode(values[key])) || (side.writes && !side.writes[key]);
		const line = (key) => h("div", h("dt", key), h("dd", whole(values[key], typeOf(key), base ? { value: base[key] } : null, labels)));
		const [some, rest] = [Object.keys(values).filter(differs), Object.keys(values).filter((key) => !differs(key))];
		return [conflict.kind === "uniqueness" && h("p", objectLink(side.value.object, labels)), h("dl.row", some.map(line)),
			rest.length > 0 && h("details", h("summary", count(rest.length, "more property", "more properties")), h("dl.row", rest.map(line)))];
	}

	async function decide(how, text, from) {
		if (!(await askAuthor())) return;
		document.querySelectorAll("#main .card button").forEach((one) => { one.disabled = true; });
		try {
			const shown = conflict;
			await resolve(conflict, how, note.trim());
			note = "";
			isDirty = false;
			await load();
			tellDecision(text, shown, view.status.cluster);
			document.getElementById("heading")?.focus();
		} catch (error) {
			notice("bad", error.message);
			if (/^sidesC|^conflictN|^alreadyR/.test(error.code)) await load().catch(() => {});
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
			await undo(conflict, note.trim());
			await load();
			notice("good", "Undone. Readers see again what the decision had replaced.");
		} catch (error) {
			notice("bad", error.message);
			if (/^sidesC|^conflictN/.test(error.code)) await load().catch(() => {});
		}
	}

	function otherWays(object, labels) {
		const ways = [ownValues(object), policyWay(), changeKeys(labels), deleteWay(object)].filter(Boolean);
		return ways.length > 0 && part("Or decide otherwise", h("div.ways", ways));
	}

	const way = (title, content, ...foot) => h("div.card", h("h3", title), content, h("div.foot", foot));

	// A form for values of some objects. `read` makes a decision of what it holds, or throws what is wrong.
	function valueForm(title, content, read, text) {
		const command = h("div");
		const show = () => {
			try {
				const how = read(form);
				replace(command, how && !how.change && commandLine(resolveCommand(conflict, how)));
			} catch {
				replace(command);
			}
		};
		const form = h("form.card", { label: title, on: { input: () => { isDirty = true; show(); }, submit: (event) => {
			event.preventDefault();
			try {
				decide(read(form), text, event.submitter);
			} catch (error) {
				notice("bad", error.message);
			}
		} } }, h("h3", title), content, h("div.foot", h("button", { type: "submit", key: title }, "Save this"), asCommand(command)));
		show();
		return form;
	}

	const keysOf = () => conflict.id.replace(/@\d+$/, "").split(".unique.")[1]?.split(/[+,.]/) ?? [];

	// Other values than the sides have: of the disputed property, or of those that differ in a row.
	function ownValues(object) {
		if (["delete", "link", "count", "save"].includes(conflict.kind)) return null;
		const shown = (conflict.sides.find((side) => side.visible) ?? conflict.sides[0])?.value;
		const [names, values] = conflict.property ? [[conflict.property], { [conflict.property]: shown }] : conflict.kind === "uniqueness" ? [keysOf(), object?.values ?? {}]
			: [schema.attributes(conflict.entity).map((one) => one.name).filter((name) => new Set(conflict.sides.map((side) => encode(side.value?.[name] ?? null))).size > 1), shown ?? {}];
		const toMany = schema.relationships(conflict.entity).filter((one) => one.toMany).map((one) => one.name);
		const open = names.filter((name) => typeOf(name) !== "binary" && !toMany.includes(name));
		return open.length > 0 && valueForm(conflict.kind === "uniqueness" ? "Another key for the shown object" : "Write another value", open.map((name) => valueField(name, typeOf(name), values[name])),
			(form) => ({ values: readValues(form, open, typeOf) }), "Decided: your value stays.");
	}

	function policyWay() {
		if (["count", "save"].includes(conflict.kind)) return null;
		const command = h("div");
		let policy = choosing[1][0];
		const show = (chosen) => { policy = chosen; replace(command, commandLine(resolveCommand(conflict, { policy }))); };
		show(policy);
		return way("Let a policy choose", choice("Take", choosing, policy, show, { key: "choose" }), button("Decide by policy", (event) => decide({ policy }, "Decided by policy.", event.target)), asCommand(command));
	}

	// Of a unique key each object may get another one.
	function changeKeys(labels) {
		const keys = keysOf();
		if (conflict.kind !== "uniqueness" || !keys.length) return null;
		const sides = conflict.sides.filter((side, at) => conflict.sides.findIndex((one) => one.value?.object === side.value?.object) === at);
		return valueForm("Keep all objects, with other keys", sides.map((side) => h("fieldset", { "data-object": side.value.object }, h("legend", objectLink(side.value.object, labels)), keys.map((key) => valueField(key, typeOf(key), side.value.values?.[key])))), (form) => {
			const change = {};
			for (const side of sides) {
				const values = readValues([...form.querySelectorAll("fieldset")].find((one) => one.dataset.object === side.value.object), keys, typeOf);
				if (keys.some((key) => values[key] !== side.value.values[key])) change[side.value.object] = values;
			}
			if (!Object.keys(change).length) throw new Error("Change the key of at least one object.");
			return { change };
		}, "Decided: all objects stay, with keys of their own.");
	}

	function deleteWay(object) {
		if (!object || ["delete", "count", "link"].includes(conflict.kind)) return null;
		return way("Delete the object", h("p", "It goes with everything that it holds."), button("Delete the object…", async () => {
			if (await dialog("Delete the object?", h("p", "The whole object goes at every node. You can undo it."), "Delete it")) decide({ delete: true }, "Decided: the object is deleted.");
		}, { class: "danger" }), asCommand(resolveCommand(conflict, { delete: true })));
	}

	function resultBox(object, labels) {
		const property = conflict.property;
		const toMany = schema.relationships(conflict.entity).some((one) => one.name === property && one.toMany);
		return part("What readers see now",
			!object ? h("p", "The object is deleted.")
				: property && property in object.values && !toMany ? h("div.card", whole(object.values[property], typeOf(property), null, labels))
					: h("p", "The object exists: ", objectLink(object.id, labels)),
			!conflict.decision && h("p", h("strong", "Why: "), conflict.reason?.text ?? "unknown"),
			conflict.violation && h("p.bad-text", `The object breaks a rule of the model: ${conflict.violation}.`));
	}

	function objectBox(object, labels) {
		return object && part(["The object ", objectLink(object.id, labels)],
			blameTable(view, schema, object, conflict.property), neighbours(view, schema, object));
	}

	function details() {
		const rows = [["ID", h("code", conflict.id)], ["Short ID", h("code", conflict.short)], ["Kind", conflict.kind], ["Policy", conflict.policy], ["Object", h("code", conflict.object)],
			["Closed by", conflict.closedBy ? dotText(conflict.closedBy) : "nothing yet"]];
		return asTable("IDs and saves", table("The conflict in detail", ["What", "Value"], rows));
	}

	await load();
	view.onChange(async (batch) => {
		const objects = new Set([conflict.object, ...conflict.sides.map((side) => side.object ?? side.value?.object)]);
		if (batch.length && !batch.some((one) => one.changes.some((change) => objects.has(change.object)))) return;
		const state = (one) => [one.id, ...one.sides.map((side) => side.dot)].join();
		const before = state(conflict);
		if (isDirty) {
			const fresh = await view.get(conflictPath(id)).catch(() => null);
			if (fresh && state(fresh) === before) return;
			notice("note", "This conflict has changed at some node while you typed.", button("Show it as it is now", load, { class: "small" }));
			return;
		}
		await load();
		if (state(conflict) !== before) say(conflict.open ? "Another value came. The page shows it." : "This conflict was decided.");
	});
}

function valueField(name, type, value) {
	const text = value == null ? "" : String(value);
	const isNull = h("label.field.inline", h("input", { type: "checkbox", name: `null ${name}`, checked: value === null, label: `${name}: no value` }), h("span", "no value"));
	const properties = { name: `value ${name}`, key: `value ${name}`, value: text };
	if (type === "boolean") return h("div", choice(name, [["true", "true"], ["false", "false"]], text || "false", () => {}, properties), isNull);
	const isLong = type === "string" && (text.length > 60 || text.includes("\n"));
	const input = isLong ? h("label.field", h("span", name), h("textarea", { ...properties, rows: "5" }))
		: field(name, { ...properties, inputmode: /^integer/.test(type) ? "numeric" : null, placeholder: { date: "2026-01-31T12:00:00.000Z", reference: "x-tributary://…" }[type] ?? null });
	input.addEventListener("input", () => { isNull.querySelector("input").checked = false; });
	return h("div", input, isNull);
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
