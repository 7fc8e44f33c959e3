// Times in the reader's own zone; the UTC value stays in the title.
const styles = {
  full: { dateStyle: "medium", timeStyle: "short" },
  time: { timeStyle: "short" },
  day: { dateStyle: "medium" },
};

function inReadersZone(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.getTime())) {
      element.textContent = new Intl.DateTimeFormat(undefined, styles[element.dataset.show] || styles.full).format(at);
    }
  }
}

inReadersZone(document);
