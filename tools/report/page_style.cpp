#include "tools/report/page_style.hpp"

namespace cfck::tools::report {
namespace {

// python_bindings/cfck/plot.py has the same colours.
// Colours, text and sections.
constexpr std::string_view kPage = R"(
:root{color-scheme:light dark;--page:#f6f7f8;--card:#fff;--ink:#18222c;--soft:#5c6b78;--line:#e2e6ea;
--stripe:#f1f4f6;--after:#1f7a99;--before:#b9c3cc;--lossless:#8fa3b3;--error:#c9572f;--warn:#fff4e5;
--warn-line:#e0a04a;--plate:#eef1f4}
@media(prefers-color-scheme:dark){:root{--page:#10151a;--card:#182028;--ink:#e6ebef;--soft:#98a6b3;
--line:#2a343e;--stripe:#1d2731;--after:#54b4d3;--before:#4d5a66;--lossless:#6b7d8d;--error:#ee8a62;
--warn:#33280f;--warn-line:#a97a2e;--plate:#222c36}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1080px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{font-size:20px;margin:0 0 4px;letter-spacing:-.01em}
h3{font-size:14px;margin:0 0 6px}
p{margin:0 0 12px;max-width:72ch}
.soft{color:var(--soft)}
.sub{color:var(--soft);margin:0 0 24px;overflow-wrap:anywhere}
bdi{overflow-wrap:anywhere}
code,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.88em;overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:22px 24px;
margin:0 0 20px}
section>p{color:var(--soft);font-size:14.5px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0 0 20px}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:14px 18px}
.card b{display:block;font-size:25px;line-height:1.25;letter-spacing:-.02em;font-weight:650;
overflow-wrap:anywhere}
.card span{color:var(--soft);font-size:13.5px}
.card.main{background:#1f7a99;border-color:#1f7a99;color:#fff}
.card.main span{color:#fff;opacity:.9}
.quality b{color:var(--after)}
.problems{background:var(--warn);border-color:var(--warn-line)}
.problems ul{margin:8px 0 0;padding-left:20px}
)";

// These rules are for pictures.
constexpr std::string_view kPictures = R"(
svg{display:block;width:100%;height:auto;overflow:visible;font-size:12px;fill:var(--ink)}
.narrow{display:none}
.before{fill:var(--before)}.after,.lossy{fill:var(--after)}.lossless{fill:var(--lossless)}
.error{fill:var(--error)}.error-area{fill:var(--error);opacity:.22}
.error-line{stroke:var(--error);stroke-width:2;fill:none}
.after-line{fill:none;stroke:var(--after);stroke-width:1.5;stroke-linejoin:round}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--soft);fill:none}
.average{stroke:var(--ink);stroke-dasharray:4 4;opacity:.75;fill:none}
.stripe{fill:var(--stripe)}.plate{fill:var(--plate)}.other{fill:var(--before)}
svg .soft{fill:var(--soft)}svg .strong{font-weight:600}
.b0{fill:#cdebe6;background:#cdebe6}.b1{fill:#9bd6d1;background:#9bd6d1}
.b2{fill:#66bec3;background:#66bec3}.b3{fill:#3ca2b6;background:#3ca2b6}
.b4{fill:#2b83a3;background:#2b83a3}.b5{fill:#29648c;background:#29648c}
.b6{fill:#2c4874;background:#2c4874}.b7{fill:#2b2f5b;background:#2b2f5b}
svg .on{fill:#0c2530;pointer-events:none}svg .on.soft{opacity:.8}
svg .on.b4,svg .on.b5,svg .on.b6,svg .on.b7{fill:#fff}
@media(prefers-color-scheme:dark){
.b0{fill:#1c3d45;background:#1c3d45}.b1{fill:#1d5059;background:#1d5059}
.b2{fill:#1f6672;background:#1f6672}.b3{fill:#277f8f;background:#277f8f}
.b4{fill:#3b94a9;background:#3b94a9}.b5{fill:#55a6bb;background:#55a6bb}
.b6{fill:#76b7ca;background:#76b7ca}.b7{fill:#9ac7d6;background:#9ac7d6}
svg .on.b0,svg .on.b1,svg .on.b2,svg .on.b3{fill:#eef7f8}
svg .on.b4,svg .on.b5,svg .on.b6,svg .on.b7{fill:#08222b}}
.lossy,.lossless,.error-area{shape-rendering:crispEdges}
a{color:inherit;text-decoration-color:var(--before);text-underline-offset:3px}
.label{overflow-wrap:anywhere}.label .soft{font-size:13px}.label bdi{margin-right:6px}
svg a:hover rect{opacity:.85}
.key{display:flex;flex-wrap:wrap;gap:6px 16px;margin:12px 0 0;color:var(--soft);font-size:13px;
list-style:none;padding:0}
.key i{display:inline-block;width:13px;height:13px;border-radius:3px;margin-right:6px;
vertical-align:-2px}
i.lossy,i.after{background:var(--after)}i.lossless{background:var(--lossless)}
i.before{background:var(--before)}i.error{background:var(--error)}i.other{background:var(--before)}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(270px,1fr));gap:22px 26px;
margin-top:14px}
.picture{min-width:0}
.picture h3{font-weight:600;overflow-wrap:anywhere}
.picture h3 a{text-decoration:none}
.picture h3 a:hover{text-decoration:underline}
.picture p{font-size:13px;color:var(--soft);margin:4px 0 0}
)";

// Tables and the list of layers, and narrow windows.
constexpr std::string_view kLists = R"(
table{border-collapse:collapse;width:100%;font-size:14px}
th{font-weight:500;color:var(--soft);text-align:left;white-space:nowrap}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td.num,th.num{text-align:right;white-space:nowrap}
tr:last-child td{border-bottom:0}
td:last-child,th:last-child{padding-right:0}
details{border-top:1px solid var(--line)}
summary{cursor:pointer;list-style:none;padding:9px 0}
summary::-webkit-details-marker{display:none}
summary:focus-visible,a:focus-visible{outline:2px solid var(--after);outline-offset:2px;border-radius:4px}
.row{display:grid;grid-template-columns:minmax(0,1fr) 84px 62px 84px;gap:2px 14px;align-items:baseline}
.row>span:not(.label):not(.mark){text-align:right;white-space:nowrap;font-size:14px}
.row>.label{position:relative;padding-left:16px}
.row>.label::before{content:"";position:absolute;left:0;top:.5em;
border:4.5px solid transparent;border-left:6px solid var(--soft);border-right:0}
details[open]>summary.row>.label::before{transform:rotate(90deg)}
.leaf>.label::before,.head>.label::before{visibility:hidden}
.row .mark{grid-column:1/-1;height:5px;border-radius:3px;background:var(--stripe);overflow:hidden;
display:flex;margin:1px 0 2px 16px}
.mark i{display:block;height:100%;background:var(--after);border-radius:3px}
.head{color:var(--soft);font-size:13px;padding:0 0 6px;border-top:0}
.head span{font-size:13px!important}
.in{padding:0 0 10px 16px}
.leaf{padding:7px 0;border-top:1px solid var(--line)}
.in .row{grid-template-columns:minmax(0,1fr) 84px 62px 84px}
.tensor{padding:4px 0 16px 16px;display:grid;gap:14px 32px;
grid-template-columns:repeat(auto-fit,minmax(270px,1fr))}
.tensor table{font-size:13.5px}
.tensor td,.tensor th{padding-top:3px;padding-bottom:3px}
.tensor td:not(.num),.tensor th:not(.num){white-space:normal}
.tensor p{font-size:13px;color:var(--soft);margin:4px 0 0}
.badge{display:inline-block;border:1px solid var(--warn-line);background:var(--warn);border-radius:20px;
padding:0 9px;font-size:12.5px}
footer{color:var(--soft);font-size:13px}
@media(max-width:640px){
main{padding:24px 14px 40px}h1{font-size:24px}section{padding:18px 15px;border-radius:12px}
.wide{display:none}.narrow{display:block}.cards{grid-template-columns:1fr 1fr;gap:10px}
.card{padding:11px 13px}.card b{font-size:21px}
.row,.in .row{grid-template-columns:repeat(3,1fr);gap:2px 8px}
.row>.label{grid-column:1/-1}
.row>span:not(.label):not(.mark){font-size:13px;text-align:left;color:var(--soft)}
.row>.label+span{padding-left:16px}
.in{padding-left:10px}.tensor{padding-left:10px}
th,td{padding-right:10px}
.named tr{display:grid;grid-template-columns:repeat(3,1fr);border-bottom:1px solid var(--line);padding:5px 0}
.named tr:last-child{border-bottom:0}
.named td,.named th{border:0;padding:0 8px 0 0;white-space:normal}
.named td:first-child,.named th:first-child{grid-column:1/-1}
.named td.num,.named th.num{text-align:left}}
@media print{body{background:#fff}section,.card{break-inside:avoid}}
)";

}  // namespace

std::string page_style() {
  return std::string(kPage) + std::string(kPictures) + std::string(kLists);
}

}  // namespace cfck::tools::report
