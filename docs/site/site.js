// Search, the menu of a phone, light and dark, filters of tables. No library.
"use strict";
const root = document.currentScript.dataset.root, $ = (s) => document.querySelector(s);
const box = $("#q"), hits = $("#hits"), menu = $(".menu");
let loading, chosen = -1;

const load = () => loading ??= new Promise((done) => {
  const s = document.createElement("script");
  s.src = root + "/search.js";
  s.onload = done;
  document.head.append(s);
});

function score(entry, terms) {
  const title = entry[0].toLowerCase(), rest = (entry[1] + " " + entry[3]).toLowerCase();
  let sum = 0;
  for (const t of terms) {
    if (title === t) sum += 40;
    else if (title.startsWith(t)) sum += 20;
    else if (title.split(/[\s._]+/).some((w) => w.startsWith(t))) sum += 12;
    else if (title.includes(t)) sum += 6;
    else if (rest.includes(t)) sum += 2;
    else return 0;
  }
  return sum - Math.min(title.length, 60) / 60 - (entry[2].startsWith("benchmarks") || entry[2].startsWith("decisions") ? 1 : 0);
}

function excerpt(text, term) {
  const at = Math.max(0, text.toLowerCase().indexOf(term) - 40);
  return (at ? "… " : "") + text.slice(at, at + 130);
}

async function search() {
  const terms = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return void (hits.hidden = true);
  await load();
  const found = INDEX.map((e) => [score(e, terms), e]).filter((f) => f[0] > 0).sort((a, b) => b[0] - a[0]).slice(0, 12);
  chosen = -1;
  hits.replaceChildren(...found.map(([, e]) => {
    const li = document.createElement("li"), a = document.createElement("a"), em = document.createElement("em"), p = document.createElement("span");
    a.href = root + "/" + e[2];
    a.textContent = e[0] + " ";
    em.textContent = e[1] === e[0] ? "" : e[1];
    p.textContent = excerpt(e[3], terms[0]);
    a.append(em, p);
    li.append(a);
    return li;
  }));
  if (!found.length) hits.innerHTML = "<li class=none>Nothing found.</li>";
  hits.hidden = false;
}

box.addEventListener("focus", load);
box.addEventListener("input", search);
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { e.preventDefault(); box.focus(); }
  if (e.key === "Escape") { hits.hidden = true; document.body.classList.remove("open"); menu.setAttribute("aria-expanded", "false"); box.blur(); }
  const links = [...hits.querySelectorAll("a")];
  if (hits.hidden || !links.length || document.activeElement !== box) return;
  if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    e.preventDefault();
    chosen = (chosen + (e.key === "ArrowDown" ? 1 : -1) + links.length) % links.length;
    links.forEach((a, i) => a.classList.toggle("chosen", i === chosen));
    links[chosen].scrollIntoView({ block: "nearest" });
  }
  if (e.key === "Enter") links[Math.max(chosen, 0)].click();
});
document.addEventListener("click", (e) => { if (!e.target.closest(".search")) hits.hidden = true; });

menu.addEventListener("click", () => menu.setAttribute("aria-expanded", document.body.classList.toggle("open")));
$(".theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", dark ? "light" : "dark"); } catch {}
});

const current = $("nav [aria-current]"), nav = $("nav");
if (current && nav.scrollHeight > nav.clientHeight) nav.scrollTop = current.offsetTop - nav.clientHeight / 3;

const filter = $(".filter");
filter?.addEventListener("input", () => {
  const terms = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(".filtered tbody tr"))
    row.hidden = !terms.every((t) => row.textContent.toLowerCase().includes(t));
});

const marks = [...document.querySelectorAll("aside a")];
if (marks.length) {
  const heads = marks.map((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))));
  const mark = () => {
    let at = 0;
    heads.forEach((h, i) => { if (h && h.getBoundingClientRect().top < 120) at = i; });
    marks.forEach((a, i) => a.classList.toggle("here", i === at));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}
