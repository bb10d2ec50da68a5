// Takes the data of a run that goes on from the server, and draws the page anew.

const page = document.title;
const formatRate = (value) => String(Number(value.toPrecision(3)));

function showLive() {
  const {line, workers = [], servers = [], left_out: leftOut = 0} = report.live;
  byId('live-line').textContent = line;
  document.title = report.headline ? `${report.headline} - ${page}` : page;
  const rows = [
    ['members', workers, [
       ['Worker', (w) => w.name], ['State', (w) => w.state, 'text'],
       ['Steps', (w) => formatCount(w.steps)], ['Steps/s', (w) => formatRate(w.steps_per_second)],
       ['Commits', (w) => formatCount(w.commits)],
       ['Commits/s', (w) => formatRate(w.commits_per_second)], ['Order', (w) => w.order, 'text'],
       ['Waiting', (w) => formatPercent(w.waiting_share)],
       ['Communicating', (w) => formatPercent(w.communicating_share)],
       ['Up/s', (w) => formatBytes(w.up_bytes_per_second)],
       ['Down/s', (w) => formatBytes(w.down_bytes_per_second)],
       ...(workers.some((w) => w.link) ? [['Link', (w) => w.link || missing, 'text']] : []),
       ['Last heard', (w) => `${formatDuration(w.heard_seconds_ago)} ago`],
       ['Loss', (w) => known(w.loss) ? formatLoss(w.loss) : missing],
     ]],
    ['servers', servers, [
       ['Server', (s) => s.name], ['Address', (s) => s.endpoint, 'text'],
       ['State', (s) => s.state, 'text'], ['Snapshot', (s) => formatCount(s.snapshot)],
     ]],
  ];
  for (const [id, found, columns] of rows) {
    byId(id).closest('div').hidden = found.length === 0;
    fillTable(id, columns, found);
  }
  if (leftOut > 0)
    byId('live-line').append(` The first ${workers.length} of ${workers.length + leftOut} workers:`);
  byId('members-note').hidden = workers.length === 0;
}

showLive();
const source = new EventSource('events');
source.onmessage = ({data}) => {
  Object.assign(report, JSON.parse(data));
  fillPage();
  redraw();
  showLive();
  if (report.live.over) source.close();
};
source.onerror = () => {
  if (!report.live.over) byId('live-line').textContent = 'No word from the command; asking again.';
};
