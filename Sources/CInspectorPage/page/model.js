// The model as entities and relationships: a box for each entity, lines between the rows of a relationship's two ends.

import { encode } from "./api.js";
import { commandOf } from "./decide.js";
import { asCommand, asTable, h, s, scroller, table } from "./dom.js";
import { loadModel } from "./schema.js";
import { dataPlace, shorten } from "./values.js";

const width = 270;
const row = 20;
const gap = { x: 120, y: 34 };
const mostRows = 18;
const mostBoxes = 120;

/** The view of the model. */
export async function modelPage(view) {
	const schema = await loadModel(true);
	const links = pairs(schema);
	view.page("Model", h("p.lead", `${schema.entities.length} entities. Policies stand beside the names. They decide what readers see of values that were written apart.`),
		scroller("div.picture", "The model as a picture; scroll to see all", picture(schema, links)),
		h("p.legend", h("span", "◆ part of a unique key"), h("span", "* mandatory"), h("span", "1 to-one, n to-many"), h("span", "┄▷ inherits from")),
		asTable("As a table", table("Entities and their properties", ["Entity", "Property", "Type", "Policy", "Rules"], schema.entities.flatMap(propertyRows))),
		asCommand(commandOf("model")));
}

function propertyRows(entity) {
	const name = h("a", { href: dataPlace(entity.name) }, entity.name);
	const told = (...rules) => rules.filter(Boolean).join("; ");
	const policy = (one) => one.mergePolicy ?? entity.mergePolicy ?? (entity.parent ? "its parent's" : "error");
	return [[name, "", "entity", policy({}), told(entity.parent && `inherits from ${entity.parent}`, ...(entity.uniquenessConstraints ?? []).map((one) => `unique ${one.join(", ")}`))],
		...(entity.attributes ?? []).map((one) => [entity.name, one.name, one.type, policy(one),
			told(one.optional === false && "mandatory", one.derivation && `derived: ${one.derivation}`, one.validation && encode(one.validation))]),
		...(entity.relationships ?? []).map((one) => [entity.name, one.name, `${one.toMany ? "many" : "one"} ${one.destination}`, policy(one),
			told(one.inverse && `back by ${one.inverse}`, `on delete ${one.deleteRule ?? "nullify"}`)])];
}

// Each relationship once, with its inverse.
function pairs(schema) {
	const done = new Set();
	const found = [];
	for (const entity of schema.entities) {
		for (const one of entity.relationships ?? []) {
			if (done.has(`${entity.name}.${one.name}`)) continue;
			const back = one.inverse ? schema.relationships(one.destination).find((other) => other.name === one.inverse) : null;
			if (one.inverse) done.add(`${one.destination}.${one.inverse}`);
			found.push({ from: entity.name, to: one.destination, one, back: back ?? null });
		}
	}
	return found;
}

// Columns by distance from the entity with the most links, so that most lines go from one column to the next.
function arrange(schema, links) {
	const near = new Map(schema.names.map((name) => [name, new Set()]));
	const join = (one, two) => { near.get(one)?.add(two); near.get(two)?.add(one); };
	links.forEach(({ from, to }) => join(from, to));
	schema.entities.forEach((entity) => { if (entity.parent) join(entity.name, entity.parent); });
	const left = schema.names.slice(0, mostBoxes).sort((one, two) => near.get(two).size - near.get(one).size || (one < two ? -1 : 1));
	const columns = [];
	while (left.length) {
		let layer = [left.shift()];
		let depth = 0;
		while (layer.length) {
			(columns[depth] ??= []).push(...layer);
			const next = [];
			for (const name of layer) for (const other of near.get(name)) if (left.includes(other)) next.push(left.splice(left.indexOf(other), 1)[0]);
			layer = next;
			depth += 1;
		}
	}
	// A column that would be very tall is continued beside itself.
	return columns.flatMap((column) => Array.from({ length: Math.ceil(column.length / 6) }, (_, at) => column.slice(at * 6, at * 6 + 6)));
}

function picture(schema, links) {
	const boxes = new Map();
	let [x, tallest] = [16, 0];
	for (const column of arrange(schema, links)) {
		let y = 16;
		for (const name of column) {
			const entity = schema.entity(name);
			const all = [...(entity.attributes ?? []), ...(entity.relationships ?? [])];
			// Lines begin at relationships, so a long list of attributes is cut before them.
			const kept = all.length <= mostRows ? all : [...(entity.attributes ?? []).slice(0, Math.max(0, mostRows - (entity.relationships ?? []).length)), ...(entity.relationships ?? [])];
			const height = 34 + (kept.length + (kept.length < all.length ? 1 : 0)) * row + 6;
			boxes.set(name, { name, entity, x, y, height, rows: kept, isCut: kept.length < all.length ? all.length - kept.length : 0 });
			y += height + gap.y;
		}
		tallest = Math.max(tallest, y);
		x += width + gap.x;
	}
	const wide = x - gap.x + 60;
	const edges = links.filter(({ from, to }) => boxes.has(from) && boxes.has(to));
	return s("svg.model", { viewBox: `0 0 ${wide} ${tallest}`, width: wide, height: tallest, role: "img", label: `${schema.entities.length} entities and ${links.length} relationships. Tables below list them.` },
		schema.entities.filter((one) => one.parent && boxes.has(one.parent) && boxes.has(one.name)).map((one) => parentLine(boxes.get(one.name), boxes.get(one.parent))),
		[...boxes.values()].map((box) => boxPicture(box)), edges.map((link, index) => relationLine(link, boxes, index)));
}

function boxPicture(box) {
	const { entity, x, y, height } = box;
	const keys = new Set((entity.uniquenessConstraints ?? []).flat());
	const clip = (text, most) => shorten(text, most);
	return s("g", s("rect.box", { x, y, width, height, rx: 7 }), s("path.head", { d: `M${x} ${y + 30} V${y + 7} a7 7 0 0 1 7 -7 H${x + width - 7} a7 7 0 0 1 7 7 V${y + 30} Z` }),
		s("a", { href: dataPlace(entity.name) }, s("text.strong", { x: x + 10, y: y + 20 }, clip(entity.name, 18) + (entity.abstract ? " (abstract)" : ""))),
		s("text.small.end", { x: x + width - 10, y: y + 20 }, shortPolicy(entity.mergePolicy ?? (entity.parent ? "" : "error"))),
		box.rows.map((one, index) => {
			const line = y + 47 + index * row;
			const isLink = Boolean(one.destination);
			const name = `${keys.has(one.name) ? "◆ " : ""}${clip(one.name, 16)}${one.optional === false ? " *" : ""}`;
			const told = isLink ? `${clip(one.destination, 14)} ${one.toMany ? "n" : "1"}` : [one.type, one.mergePolicy && shortPolicy(one.mergePolicy)].filter(Boolean).join(" · ");
			return [s("text", { x: x + 10, y: line, "font-style": isLink ? "italic" : null }, name), s("text.small.end", { x: x + width - 10, y: line }, told)];
		}),
		box.isCut > 0 && s("text.small", { x: x + 10, y: y + 47 + box.rows.length * row }, `and ${box.isCut} more attributes`));
}

const shortPolicy = (policy) => ({ mergeByPropertyStoreTrump: "store trump", mergeByPropertyObjectTrump: "object trump" }[policy] ?? policy);

function end(box, name) {
	const index = box.rows.findIndex((one) => one.name === name);
	return index < 0 ? box.y + 15 : box.y + 43 + index * row;
}

function relationLine({ from, to, one, back }, boxes, index) {
	let [a, b] = [boxes.get(from), boxes.get(to)];
	let [ya, yb] = [end(a, one.name), back ? end(b, back.name) : b.y + 15];
	let [ma, mb] = [back ? (back.toMany ? "n" : "1") : "", one.toMany ? "n" : "1"];
	if (a.x > b.x) [a, b, ya, yb, ma, mb] = [b, a, yb, ya, mb, ma];
	const title = s("title", `${from}.${one.name} to ${to}${back ? `, back by ${back.name}` : ""}`);
	if (a.x === b.x) {
		const bulge = 26 + (index % 4) * 9;
		const right = a.x + width;
		return s("g", title, s("path.edge", { d: `M${right} ${ya} C${right + bulge} ${ya} ${right + bulge} ${yb} ${right} ${yb}` }), s("text.small", { x: right + 5, y: ya - 3 }, ma), s("text.small", { x: right + 5, y: yb + 12 }, mb));
	}
	const [x1, x2] = [a.x + width, b.x];
	return s("g", title, s("path.edge", { d: `M${x1} ${ya} C${x1 + 60} ${ya} ${x2 - 60} ${yb} ${x2} ${yb}` }), s("text.small", { x: x1 + 5, y: ya - 4 }, ma), s("text.small.end", { x: x2 - 5, y: yb - 4 }, mb));
}

function parentLine(child, parent) {
	const isRight = child.x > parent.x;
	const [x1, y1] = [isRight ? child.x : child.x + width, child.y + 15];
	const [x2, y2] = [isRight ? parent.x + width : parent.x === child.x ? parent.x + width : parent.x, parent.y + 15];
	const out = isRight || parent.x === child.x ? 1 : -1;
	const tip = x2 + out * 12;
	return s("g", s("title", `${child.name} inherits from ${parent.name}`),
		s("path.edge.parent", { d: `M${x1} ${y1} C${x1 - (isRight ? 50 : -50)} ${y1} ${tip + out * 50} ${y2} ${tip} ${y2}` }), s("path.arrow", { d: `M${x2} ${y2} L${tip} ${y2 - 7} V${y2 + 7} Z` }));
}
