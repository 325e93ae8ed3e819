
// A page of a run under way is sent anew as the run goes on. EventSource connects again by itself.
(() => {
  const live = document.getElementById("live");
  const link = document.getElementById("link");
  if (!live || !live.dataset.events) return;
  const events = new EventSource(live.dataset.events);
  events.addEventListener("part", (e) => {
    link.textContent = "Follows the run.";
    live.innerHTML = e.data;
  });
  events.addEventListener("over", () => {
    events.close();
    link.textContent = "The run is over.";
  });
  events.addEventListener("error", () => {
    link.textContent = events.readyState === EventSource.CLOSED ? "Nobody answers any more: load the page again." : "The connection is lost: trying again.";
  });
})();
