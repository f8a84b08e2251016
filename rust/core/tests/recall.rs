//! The analysis of text against a real full-text table.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use amberlog_core::recall::{Options, Words, analyse, parse, parse_with};
use proptest::prelude::*;
use rusqlite::Connection;
use unicode_normalization::char::is_combining_mark;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// An index of some texts: what the store uses, and a twin that shows the tokens.
struct Index {
    db: Connection,
    rows: i64,
}

impl Index {
    fn of(texts: &[&str]) -> Outcome<Self> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(body, whole, content='', contentless_delete=1);
             CREATE VIRTUAL TABLE twin USING fts5(body, whole);
             CREATE VIRTUAL TABLE seen USING fts5vocab(twin, instance);",
        )?;
        let mut index = Index { db, rows: 0 };
        for text in texts {
            index.add(text)?;
        }
        Ok(index)
    }

    fn add(&mut self, text: &str) -> Outcome<Words> {
        let mut words = Words::default();
        analyse(text, &mut words);
        self.rows += 1;
        for table in ["t", "twin"] {
            self.db
                .prepare_cached(&format!("INSERT INTO {table}(rowid, body, whole) VALUES (?, ?, ?)"))?
                .execute((self.rows, &words.body, &words.whole))?;
        }
        Ok(words)
    }

    fn hits(&self, query: &str) -> Outcome<Vec<i64>> {
        self.matches(parse(query).match_expression())
    }

    fn matches(&self, expression: Option<String>) -> Outcome<Vec<i64>> {
        let Some(expression) = expression else { return Ok(Vec::new()) };
        let mut query = self.db.prepare_cached("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank, rowid")?;
        let rows = query.query_map([expression], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn tokens(&self, row: i64, column: &str) -> Outcome<Vec<String>> {
        let mut query =
            self.db.prepare_cached("SELECT term FROM seen WHERE doc = ? AND col = ? ORDER BY offset")?;
        let rows = query.query_map((row, column), |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn assert_hit(text: &str, query: &str) {
    let index = Index::of(&["another text", text]).unwrap();
    assert!(index.hits(query).unwrap().contains(&2), "{text:?} by {query:?}: {:?}", parse(query));
}

fn assert_miss(text: &str, query: &str) {
    let index = Index::of(&[text]).unwrap();
    assert!(index.hits(query).unwrap().is_empty(), "{text:?} by {query:?}: {:?}", parse(query));
}

#[test]
fn samples_of_many_languages_are_hits() {
    for (text, query) in [
        ("明天下午三点开项目评审会议", "评审"),
        ("明天下午三点开项目评审会议", "项目评审"),
        ("明天下午三点开项目评审会议", "三"),
        ("我们讨论了数据库迁移的方案", "请问数据库迁移是怎么做的"),
        ("重跑gen-itgc后清零", "itgc"),
        ("重跑gen-itgc后清零", "gen-itgc"),
        ("重跑gen-itgc后清零", "清零"),
        ("会議は東京で行います。プロジェクトの件", "プロジェクト"),
        ("会議は東京で行います。プロジェクトの件", "ﾌﾟﾛｼﾞｪｸﾄ"),
        ("会議は東京で行います。プロジェクトの件", "東京の会議"),
        ("サーバーが落ちた", "サーバー"),
        ("내일 오후 회의를 합니다", "회의"),
        ("내일 오후 회의가 있습니다", "회의를"),
        ("서울에서 만나요", "서울"),
        ("ประชุมโครงการพรุ่งนี้บ่ายสามโมง", "โครงการ"),
        ("ກອງປະຊຸມມື້ອື່ນ", "ປະຊຸມ"),
        ("កិច្ចប្រជុំថ្ងៃស្អែក", "ប្រជុំ"),
        ("မနက်ဖြန် အစည်းအဝေးရှိသည်", "အစည်းအဝေး"),
        ("اجتماع مراجعة المَشْرُوع غدًا", "المشروع"),
        ("قرأت الكتاب أمس", "امس"),
        ("می‌خواهم کتاب را", "ميخواهم"),
        ("رقم ٤٢ في القائمة", "42"),
        ("परियोजना की समीक्षा बैठक", "समीक्षा"),
        ("हिन्दी में लिखें", "हिन्दी"),
        ("প্রকল্প পর্যালোচনা", "প্রকল্প"),
        ("திட்ட மதிப்பாய்வு", "திட்ட"),
        ("Завтра всё обсудим", "все"),
        ("Мой ЙОГУРТ", "йогурт"),
        ("Größe und Straße", "STRASSE"),
        ("Größe und Straße", "grosse"),
        ("İSTANBUL'da toplantı", "istanbul"),
        ("ISPARTA ve ırmak", "Irmak"),
        ("L’été à l'école, cœur", "ecole"),
        ("L’été à l'école, cœur", "été"),
        ("L’été à l'école, cœur", "coeur"),
        ("Smørrebrød på Łódź", "smorrebrod"),
        ("Smørrebrød på Łódź", "lodz"),
        ("naïve café", "cafe"),
        ("nai\u{308}ve cafe\u{301}", "café"),
        ("ΟΔΟΣ Αθήνα", "οδος"),
        ("ΟΔΟΣ Αθήνα", "αθηνα"),
        ("שָׁלוֹם עולם", "שלום"),
        ("Tiếng Việt", "tieng viet"),
        ("ｆｕｌｌｗｉｄｔｈ ① ﬁle", "fullwidth"),
        ("ｆｕｌｌｗｉｄｔｈ ① ﬁle", "file"),
    ] {
        assert_hit(text, query);
    }
}

#[test]
fn samples_of_identifiers_are_hits_whole_and_in_parts() {
    for (text, queries) in [
        ("call getUserName() now", vec!["getUserName", "username getusername", "user", "get_user_name"]),
        ("a snake_case_name here", vec!["snake_case_name", "snakecasename", "case", "snakeCaseName"]),
        ("the kebab-case-name", vec!["kebab-case-name", "kebabcasename", "kebab"]),
        ("use foo::bar::Baz;", vec!["foo::bar", "bar::Baz", "foo", "baz"]),
        ("edit path/to/file.py:12", vec!["path/to/file.py", "file.py", "to/file", "file", "py"]),
        (r"see C:\Users\Ann\notes.txt", vec!["notes.txt", r"Users\Ann", "ann"]),
        (
            "HTTPServer and XMLHttpRequest",
            vec!["http", "httpserver", "xmlhttprequest", "XMLHttpRequest", "request"],
        ),
        ("an e-mail to ann@example.com", vec!["email", "e-mail", "ann@example.com", "example.com", "ann"]),
        ("MAX_RETRY_COUNT=5", vec!["max_retry_count", "retry", "5"]),
        ("sha256 utf-8 gpt-4 v1.2.3", vec!["sha256", "utf8", "utf-8", "gpt4", "1.2", "v1.2.3"]),
        ("pi is 3.14 on 2024-01-15", vec!["3.14", "2024-01-15", "2024", "20240115"]),
        ("550e8400-e29b-41d4-a716-446655440000", vec!["550e8400-e29b-41d4-a716-446655440000", "e29b"]),
        ("userIDs in JSON", vec!["ids", "userid", "json"]),
        ("node.js or GitHub", vec!["nodejs", "node.js", "github", "GitHub", "Node"]),
        ("the word zebrafish42", vec!["zebrafish42", "ZEBRAFISH42"]),
        (r#"{"key":"value","n":1}"#, vec!["key", "value", r#"key":"value"#]),
        ("https://example.com/a/b?c=d#e", vec!["https://example.com/a/b?c=d#e", "example", "example.com"]),
        ("__init__ and self._value", vec!["__init__", "init", "self._value", "_value"]),
        ("std::vector<int>& v", vec!["std::vector", "std::vector<int>&", "vector"]),
    ] {
        for query in queries {
            assert_hit(text, query);
        }
    }
}

#[test]
fn samples_of_signs_are_hits() {
    for (text, query) in [
        ("ship it 🚀 now", "🚀"),
        ("ship it🚀now", "🚀"),
        ("ship it🚀now", "ship"),
        ("done 👍🏽", "👍"),
        ("done 👍", "👍🏿"),
        ("the 👩🏽‍💻 team", "👩‍💻"),
        ("the 👩‍💻 team", "💻"),
        ("flag 🇩🇪🇫🇷", "🇫🇷"),
        ("press 1️⃣ or #️⃣", "1️⃣"),
        ("press 1️⃣ or #️⃣", "#️⃣"),
        ("love ❤️", "❤"),
        ("price €5 → ok ✓", "→"),
        ("price €5 → ok ✓", "€"),
        ("I write C++, mostly", "C++"),
        ("I write C++17", "c++"),
        ("C#/F# and (C++)", "C#"),
        ("C#/F# and (C++)", "f#"),
        ("on .NET today", ".NET"),
        ("on .NET today", ".net"),
        ("on ASP.NET today", ".NET"),
        ("compile with g++.", "g++"),
        ("compile with g++.", "gplusplus"),
        ("edit .gitignore", "gitignore"),
        ("edit .gitignore", ".gitignore"),
        ("x -> y", "->"),
        ("p->field", "->"),
        ("p->field", "p->field"),
        ("a != b && c", "!="),
        ("a != b && c", "&&"),
        ("Go to the park.", "park"),
        ("Go to the park", "park."),
        ("we don't use it", "don't use"),
        ("we don’t", "don't"),
        ("John's car", "john"),
        ("say a\"b now", "a\"b"),
        ("AND then", "AND"),
        ("it is near( x", "NEAR("),
        ("col:word", "col:word"),
        ("word under col", "col:word"),
        ("abc\0hidden tail", "hidden"),
        ("\u{1b}[31mred\u{1b}[0m", "31mred"),
        ("running quickly", "runs"),
        ("to be or not to be", "to be"),
    ] {
        assert_hit(text, query);
    }
}

#[test]
fn phrases_want_their_words_in_order() {
    for query in
        ["\"database migration plan\"", "“migration plan”", "\"migrations, plan\"", "\"the database\""]
    {
        assert_hit("about the database migration plan of may", query);
    }
    assert_hit("we use GitHub actions", "\"use github actions\"");
    assert_hit("we use github actions", "\"use GitHub actions\"");
    assert_hit("get it from get user name here", "\"from getUserName here\"");
    assert_hit("the gen-itgc run", "\"gen itgc run\"");
    assert_hit("the genitgc run", "\"gen-itgc run\"");
    for query in ["\"migration database\"", "\"database plan\"", "\"plan migration\""] {
        assert_miss("about the database migration plan of may", query);
    }
    assert_hit("migration of the database", "\"migration database");
}

#[test]
fn what_is_not_there_is_not_found() {
    for (text, query) in [
        ("明天下午三点开项目评审会议", "评议"),
        ("明天下午三点开项目评审会议", "审评"),
        ("내일 오후 회의를 합니다", "회식"),
        ("プロジェクト", "プロト"),
        ("हिन्दी", "हद"),
        ("हिन्दी", "हिन्द"),
        ("ship it 🚀", "🎉"),
        ("👩‍💻 here", "👨‍💻"),
        ("🇩🇪🇸🇪", "🇪🇸"),
        ("I got a C in school", "C++"),
        ("I got a C in school", "C#"),
        ("C++ here", "C#"),
        ("the gen is here and itgc too", "gen-itgc"),
        ("foo_one bar_two", "\"fooone bartwo\""),
        ("3.14", "3.15"),
        ("мой", "мои"),
        ("が", "か"),
        ("anything", ""),
        ("anything", " \t\n"),
        ("anything", "*"),
        ("anything", "\""),
        ("anything", "NEAR("),
    ] {
        assert_miss(text, query);
    }
}

#[test]
fn the_same_blob_is_a_hit_and_another_is_not() {
    let blob = "aGVsbG8gd29ybGQ/aGVsbG8+d29ybGQx".repeat(50);
    let hex = "0123456789abcdef".repeat(8);

    assert_hit(&format!("data:image/png;base64,{blob}== end"), &format!("{blob}=="));
    assert_hit(&format!("hash {hex}"), &hex);
    assert_miss(&format!("data:image/png;base64,{blob}"), &format!("{blob}x"));
}

#[test]
fn the_beginning_of_the_last_word_is_enough_when_asked() {
    let index = Index::of(&["the happiness of getUserName"]).unwrap();
    let found = |query| {
        let query = parse_with(query, Options { prefix_last: true });
        !index.matches(query.match_expression()).unwrap().is_empty()
    };

    for query in ["happ", "happiness", "nothing happ", "getUs", "getus", "h", "get_user_na"] {
        assert!(found(query), "{query}");
    }
    for query in ["appi", "happ ", "usr", ""] {
        assert!(!found(query), "{query}");
    }
}

#[test]
fn a_huge_query_stays_small() {
    for piece in ["word", "\"", "\"a b\" ", "a.b", "-> ", "字", "the ", "\"x y", "x\"y "] {
        let query: String = (0..10_000).map(|n| piece.repeat(3) + &n.to_string() + " ").collect();
        let expression = parse(&query).match_expression().unwrap_or_default();

        assert!(expression.len() < 64 * 1024, "{piece}: {}", expression.len());
        Index::of(&["x"]).unwrap().hits(&query).unwrap();
    }
}

/// Every code point, in the middle of a word and alone, is kept as it was written.
#[test]
fn sqlite_sees_our_tokens_for_every_character() {
    // Beyond the third plane there are no letters, but for the tags of the fourteenth.
    let all: Vec<char> =
        ('\0'..'\u{34000}').chain('\u{E0000}'..'\u{E0200}').chain('\u{10FFF0}'..=char::MAX).collect();
    for some in all.chunks(2048) {
        let text = some.iter().fold(String::new(), |text, c| format!("{text}q{c}z {c} {c}{c}\u{93f} "));
        assert_same_tokens(&mut Index::of(&[]).unwrap(), &text);
    }
}

fn assert_same_tokens(index: &mut Index, text: &str) {
    let words = index.add(text).unwrap();
    for (column, ours) in [("body", &words.body), ("whole", &words.whole)] {
        let seen = index.tokens(index.rows, column).unwrap();
        let ours: Vec<&str> = ours.split(' ').filter(|token| !token.is_empty()).collect();
        assert_eq!(seen, ours, "{column} of {text:?}");
    }
}

fn is_findable(word: &str) -> bool {
    let is_private = |c: char| matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..);
    // A lone mark is no letter, and U+0640 only stretches one.
    let is_decoration = |c: char| is_combining_mark(c) || c == '\u{640}';
    let is_emoji = |c: char| matches!(c, '\u{1F300}'..='\u{1F6FF}' | '\u{1F900}'..='\u{1F9FF}' | '\u{2600}'..='\u{27BF}');
    word.chars().any(|c| c.is_alphanumeric() && !is_private(c) && !is_decoration(c) || is_emoji(c))
}

fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<String>(),
        "[a-zA-Z0-9_'.:/@#+*<>=\"-]{1,12}",
        "[ \t\n\"()-]{1,3}",
        "[\u{4e00}-\u{4e20}\u{3041}-\u{30ff}\u{ac00}-\u{ac20}\u{e01}-\u{e4e}\u{900}-\u{97f}]{1,6}",
        "[\u{1f1e6}-\u{1f1ff}\u{1f3fb}-\u{1f3ff}\u{1f680}\u{200d}\u{fe0f}\u{20e3}\u{2764}]{1,5}",
        "[\u{c0}-\u{24f}\u{300}-\u{36f}\u{5d0}-\u{6ff}\u{a0}-\u{bf}\u{1100}-\u{11ff}]{1,6}",
        "[A-Za-z0-9+/]{60,90}",
    ];
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_sees_our_tokens_for_any_text(text in any_text()) {
        assert_same_tokens(&mut Index::of(&[]).unwrap(), &text);
    }

    #[test]
    fn any_text_is_found_by_each_of_its_words(text in any_text()) {
        let index = Index::of(&[&text]).unwrap();
        for word in text.split_whitespace().filter(|word| is_findable(word)) {
            prop_assert_eq!(index.hits(word).unwrap(), vec![1], "by {:?}: {:?}", word, parse(word));
        }
    }

    #[test]
    fn any_query_is_valid(text in any_text(), query in any_text(), prefix_last: bool) {
        let query = parse_with(&query, Options { prefix_last });

        let outcome = Index::of(&[&text]).unwrap().matches(query.match_expression());

        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }
}
