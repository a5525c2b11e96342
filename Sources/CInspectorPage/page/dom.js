// Making elements. All that comes from a node may be hostile, so there is one way to put it on the page: as text.
// Nothing here parses markup.

// Characters that a reader cannot see, or that change the order of what stands beside them.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}])\u200d|\p{Surrogate}/gu;

const nameOf = (character) => "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/** A text for places that take no elements: titles, labels, pictures. */
export const plain = (text) => String(text).replace(unseen, (one) => `⟨${nameOf(one)}⟩`);

// Puts a text into an element, with characters that cannot be seen shown by their numbers.
function addText(element, text) {
	let end = 0;
	for (const match of text.matchAll(unseen)) {
		element.append(text.slice(end, match.index));
		const mark = document.createElement("span");
		mark.className = "unseen";
		mark.textContent = nameOf(match[0]);
		element.append(mark);
		end = match.index + match[0].length;
	}
	element.append(text.slice(end));
}

const spoken = new Set(["title", "aria-label", "placeholder", "alt"]);

// Shorter names of attributes that many elements have.
const short = { label: "aria-label", key: "data-key" };

function set(element, given, value) {
	const name = short[given] ?? given;
	if (value == null || value === false) return;
	if (name === "on") {
		for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
	} else if (/^(value|checked|selected|disabled|open)$/.test(name)) {
		element[name] = value;
	} else if (name === "node") {
		// Nodes have one of six colours, beside their number.
		element.setAttribute("data-color", value % 6);
	} else if (name === "href" && !value.startsWith("#")) {
		// Only links within the page: an address that an object holds is never one to follow.
		throw new Error("a link must lead to a place on this page");
	} else if (/^on|^style$|^src|^action$|^xlink/i.test(name)) {
		throw new Error(`the attribute ${name} is not set here`);
	} else {
		element.setAttribute(name, value === true ? "" : spoken.has(name) ? plain(value) : String(value));
	}
}

function fill(element, children) {
	for (const child of children.flat(4)) {
		if (child == null || child === false) continue;
		if (child instanceof Node) element.append(child);
		else if (element instanceof SVGElement) element.append(plain(child));
		else addText(element, String(child));
	}
	return element;
}

function make(create, tag, children) {
	const [name, ...classes] = tag.split(".");
	const element = create(name);
	if (name === "button") element.type = "button";
	if (classes.length) element.setAttribute("class", classes.join(" "));
	const [first] = children;
	if (first && typeof first === "object" && !Array.isArray(first) && !(first instanceof Node)) {
		for (const [key, value] of Object.entries(children.shift())) set(element, key, value);
	}
	return fill(element, children);
}

/**
 * An element of HTML.
 * @param {string} tag a name, perhaps with classes: "p.quiet"
 * @param {...*} children perhaps attributes first (`on` has handlers by event); then elements, texts, arrays of them
 */
export const h = (tag, ...children) => make((name) => document.createElement(name), tag, children);

/** An element of SVG. Its texts take no elements, so unseen characters are written out. */
export const s = (tag, ...children) => make((name) => document.createElementNS("http://www.w3.org/2000/svg", name), tag, children);

/** A button. */
export const button = (text, press, properties = {}) =>
	h("button", { ...properties, on: { click: press, ...properties.on } }, text);

/** A labelled choice; options are texts or [value, text]. */
export function choice(label, options, value, change, properties = {}) {
	return h("label.field", h("span", label),
		h("select", { ...properties, on: { change: (event) => change(event.target.value) } },
			options.map((option) => {
				const [key, text] = Array.isArray(option) ? option : [option, option];
				return h("option", { value: key, selected: key === value }, text);
			})));
}

/** A labelled field for one line. */
export const field = (label, properties) =>
	h("label.field", h("span", label), h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...properties }));

/**
 * A table that stays one for screen readers when a narrow screen shows its rows as blocks.
 * @param {Array} rows cells of each, or a whole row
 */
export function table(caption, heads, rows, className) {
	return scroller("div.scroll", caption,
		h("table", { role: "table", class: className }, h("caption.hidden", caption),
			h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => (head instanceof Node ? head : headCell(head))))),
			h("tbody", { role: "rowgroup" }, rows.map((row) => (row instanceof Node ? row : tableRow(heads, row))))));
}

/** A cell of a table's head. */
export const headCell = (content, properties) => h("th", { role: "columnheader", scope: "col", ...properties }, content);

/** One row of a table. */
export function tableRow(heads, cells, properties = {}) {
	return h("tr", { role: "row", ...properties }, cells.map((cell, index) =>
		h("td", { role: "cell", "data-head": typeof heads[index] === "string" ? heads[index] : "" }, h("div", cell))));
}

/** Buttons for the page before and the next one. */
export const pager = (before, isFirst, text, next, isLast, turn) => h("nav.pager", { label: "Pages" },
	button(before, () => turn(-1), { disabled: isFirst, key: before }), h("span", text), button(next, () => turn(1), { disabled: isLast, key: next }));

/** A section with its heading. */
export const part = (title, ...children) => h("section", h("h2", title), children);

/** A place that is filled when its work is done. */
export function later(work) {
	const place = h("div", h("p.quiet", "Reading…"));
	Promise.resolve(work(place)).then((made) => replace(place, made), (error) => {
		if (error.name !== "AbortError") replace(place, h("p.bad-text", error.message));
	});
	return place;
}

/** What a picture shows, as a table that opens below it. */
export const asTable = (summary, made) => h("details.alternative", h("summary", summary), made);

/** Says something to screen readers. */
export function say(text) {
	const place = document.getElementById("say");
	place.textContent = "";
	setTimeout(() => { place.textContent = plain(text); }, 30);
}

/** Shows what happened, until it is dismissed or three others followed; and says it. */
export function notice(kind, text, ...more) {
	const place = document.getElementById("notices");
	const box = h(`div.notice.${kind}`, h("span.sign", { "aria-hidden": "true" }, { good: "✓", bad: "!", note: "i" }[kind]),
		h("div.what", h("p", text), more),
		button("×", () => box.remove(), { class: "icon", label: "Dismiss" }));
	place.append(box);
	while (place.children.length > 3) place.firstChild.remove();
	say(text);
	return box;
}

/** Puts other children in the place of all. */
export function replace(element, ...children) {
	element.replaceChildren();
	return fill(element, children);
}

/** The command line that does the same, folded. */
export const asCommand = (...made) => h("details", h("summary", "As a command"), made.map((one) => (typeof one === "string" ? commandLine(one) : one)));

/** A box that scrolls, also by keys. */
export const scroller = (tag, name, ...children) => h(tag, { tabindex: "0", role: "group", label: name }, children);

/** A line to copy, with a button for that. */
export function commandLine(text) {
	// What cannot be seen would do something else in a terminal than it says.
	if (plain(text) !== text || text.includes("\n")) return h("p.quiet", "This has characters that are not safe in a terminal. Decide on the page.");
	const code = h("code", { tabindex: "0" }, text);
	return h("div.command", code, button("Copy", async () => {
		try {
			await navigator.clipboard.writeText(text);
			say("Copied.");
		} catch {
			// Without HTTPS a page may not write to the clipboard. Then it selects the text.
			getSelection().selectAllChildren(code);
			say("Selected. Press Control and C to copy.");
		}
	}));
}

/**
 * Asks for something in a dialog.
 * @param {string} accept the text of the button
 * @returns {Promise<HTMLFormElement|null>} the form, or null if it was left
 */
export function dialog(title, body, accept, className = "") {
	const before = document.activeElement;
	return new Promise((resolve) => {
		let given = null;
		const close = () => box.close();
		const form = h("form", { on: { submit: (event) => { event.preventDefault(); given = form; close(); } } },
			h("h2", { id: "dialog-title" }, title), body,
			h("div.actions", accept && h("button.primary", { type: "submit" }, accept), button(accept ? "Cancel" : "Close", close)));
		const box = h("dialog", { class: className, "aria-labelledby": "dialog-title" }, form);
		box.addEventListener("close", () => {
			box.remove();
			before?.focus?.();
			resolve(given);
		});
		document.body.append(box);
		box.showModal();
		(form.querySelector("input, textarea, select") ?? form.querySelector("button"))?.focus();
	});
}

// A click that begins on one element and ends on its successor is none. So elements wait while a button is held down.
let isPressed = false;
addEventListener("pointerdown", () => { isPressed = true; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { isPressed = false; }, true);

/** Runs something that makes elements anew, and gives the focus back to the one with the same `data-key`. */
export function keepFocus(root, work) {
	if (isPressed) {
		setTimeout(keepFocus, 60, root, work);
		return;
	}
	const active = document.activeElement;
	const key = root.contains(active) ? active.getAttribute("data-key") : null;
	const place = [active?.selectionStart, active?.selectionEnd];
	// What was unfolded stays so; two with one name are told apart by their order.
	const folds = () => {
		const seen = {};
		return [...root.querySelectorAll("details")].map((one) => {
			const text = one.firstChild.textContent;
			seen[text] = (seen[text] ?? 0) + 1;
			return [one, text + seen[text]];
		});
	};
	const open = new Set(folds().filter(([one]) => one.open).map(([, name]) => name));
	work();
	if (open.size) folds().forEach(([one, name]) => { if (open.has(name)) one.open = true; });
	if (!key) return;
	const again = root.querySelector(`[data-key="${CSS.escape(key)}"]`);
	again?.focus({ preventScroll: true });
	if (typeof place[0] === "number" && again?.setSelectionRange && again.type !== "checkbox") again.setSelectionRange(...place);
}
